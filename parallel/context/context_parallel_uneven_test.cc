// Sequences that the ranks do not divide, and several samples in one: attention, its gradients and the bytes sent.
#include <fmt/format.h>

#include <functional>
#include <stdexcept>

#include "parallel/context/attention_testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/context_parallel.h"
#include "tutti/parallel/device_mesh.h"
#include "tutti/parallel/mixed_heads.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;
using Borders = std::vector<std::size_t>;

constexpr std::size_t kBatch = 2, kHeads = 12, kKvHeads = 4, kWidth = 5;
// As in context_parallel_test.cc.
constexpr double kUlps = 8, kBFloat16Ulps = 1;

struct Case {
  int ulysses, ring;
  Borders cu_seqlens;
};
class UnevenContextParallel : public ::testing::TestWithParam<Case> {};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [ulysses, ring] :
       {std::pair{1, 1}, std::pair{1, 2}, std::pair{1, 3}, std::pair{1, 4}, std::pair{1, 7}, std::pair{2, 1},
        std::pair{4, 1}, std::pair{2, 2}, std::pair{2, 3}}) {
    // The last is shorter than four ranks.
    for (const auto& cu_seqlens : {Borders{0, 13}, Borders{0, 5, 6, 13}, Borders{0, 8, 16, 24}, Borders{0, 3}}) {
      cases.push_back({ulysses, ring, cu_seqlens});
    }
  }
  return cases;
}
std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const auto& [ulysses, ring, cu_seqlens] = info.param;
  return fmt::format("ulysses_{}_ring_{}_sequence_{}_samples_{}", ulysses, ring, cu_seqlens.back(),
                     cu_seqlens.size() - 1);
}
INSTANTIATE_TEST_SUITE_P(Over, UnevenContextParallel, ::testing::ValuesIn(Cases()), NameOf);

// The rank's place, and what it computes with.
struct Place {
  explicit Place(Rank& self, const Case& of)
      : comm(self.Join()),
        world(comm),
        mesh(world, MeshLayout({{"ring", of.ring}, {"ulysses", of.ulysses}})),
        on(compute),
        of(of) {}

  ContextParallelConfig Config(const AttentionMask& mask, SequencePlacement placement, tuttiDataType_t dtype) const {
    return {.sequence = of.cu_seqlens.back(),
            .batch = kBatch,
            .heads = kHeads,
            .width = kWidth,
            .causal = mask.causal,
            .placement = placement,
            .kv_heads = kKvHeads,
            .window = mask.window,
            .dtype = dtype,
            .cu_seqlens = of.cu_seqlens};
  }
  ProcessGroup& ulysses() { return mesh.group("ulysses"); }
  ProcessGroup& ring() { return mesh.group("ring"); }

  tutti::testing::Comm comm;
  ProcessGroup world;
  DeviceMesh mesh;
  HostCompute compute;
  ElementwiseAttention<HostCompute> on;
  Case of;
};

void ForAllMasks(const std::function<void(const AttentionMask&, SequencePlacement, tuttiDataType_t)>& call) {
  for (const auto dtype : {tuttiFloat32, tuttiBfloat16}) {
    for (const auto& mask : {AttentionMask{}, AttentionMask{true}, AttentionMask{true, 2}, AttentionMask{true, 5}}) {
      for (const auto placement : {SequencePlacement::zigzag, SequencePlacement::contiguous}) {
        SCOPED_TRACE(fmt::format("{} causal {} window {} zigzag {}", name_of(dtype), mask.causal, mask.window,
                                 placement == SequencePlacement::zigzag));
        call(mask, placement, dtype);
      }
    }
  }
}

TEST_P(UnevenContextParallel, IsPlainAttention) {
  RunRanks(GetParam().ulysses * GetParam().ring, [](Rank& self) {
    Place place(self, GetParam());
    const auto& cu_seqlens = GetParam().cu_seqlens;
    const std::size_t sequence = cu_seqlens.back();
    ForAllMasks([&](const AttentionMask& mask, SequencePlacement placement, tuttiDataType_t dtype) {
      const Values qkv =
          Typed(Values::Random(mixed_shape(sequence, kBatch, kHeads, kKvHeads, kWidth), 1), dtype).values();
      const Values whole_grad = Typed(Values::Random({sequence, kBatch, kHeads, kWidth}, 2), dtype).values();
      const PlainAttention wanted(qkv, whole_grad, mask, cu_seqlens);
      ContextParallelAttention attention(place.ulysses(), place.ring(), place.on, place.Config(mask, placement, dtype));
      const auto& mine = attention.positions();
      Typed part(qkv.Rows(mine), dtype), grad_part = part, grad_out(whole_grad.Rows(mine), dtype), out = grad_out;
      const auto saved = attention.forward(part, out);
      attention.backward(part, out, saved, grad_out, grad_part);
      if (mine.empty()) return;
      // Relative to the largest value of all ranks: a rank may have a token that sees only itself.
      const double limit = (dtype == tuttiBfloat16 ? kBFloat16Ulps : kUlps);
      const auto apart = [&](Typed& got, const std::vector<double>& all) {
        auto expected = RowsOf(all, sequence, mine);
        auto values = got.values().values;
        const double largest =
            std::abs(*std::ranges::max_element(all, {}, [](double value) { return std::abs(value); }));
        expected.push_back(largest), values.push_back(static_cast<float>(largest));
        return UlpsApart(values, expected, dtype);
      };
      EXPECT_LE(apart(out, wanted.out), limit);
      EXPECT_LE(apart(grad_part, wanted.grad_qkv), limit);
    });
    self.Meet();
  });
}

// Nothing is padded: a message has its owner's rows.
TEST_P(UnevenContextParallel, SendsWhatIsNeeded) {
  RunRanks(GetParam().ulysses * GetParam().ring, [](Rank& self) {
    Place place(self, GetParam());
    const auto& cu_seqlens = GetParam().cu_seqlens;
    const auto ulysses = place.ulysses().ranks().size(), ring = place.ring().ranks().size();
    const auto ring_rank = static_cast<std::size_t>(place.ring().rank());
    ForAllMasks([&](const AttentionMask& mask, SequencePlacement placement, tuttiDataType_t dtype) {
      const auto positions = [&](std::size_t rank) {
        return positions_of(chunks_of(placement, cu_seqlens, rank, ring));
      };
      const auto sample = [&](std::size_t position) { return std::ranges::upper_bound(cu_seqlens, position); };
      const auto sees_some = [&](const Borders& queries, const Borders& keys) {
        return std::ranges::any_of(queries, [&](std::size_t query) {
          return std::ranges::any_of(keys, [&](std::size_t key) {
            return sample(query) == sample(key) &&
                   (!mask.causal || (key <= query && (mask.window == 0 || query - key < mask.window)));
          });
        });
      };
      // Positions whose keys and values this rank passes on, and whose gradients it does.
      std::size_t keys = 0, grads = 0;
      for (std::size_t owner = 0; owner < ring; ++owner) {
        std::size_t hops = 0;
        for (std::size_t on = 1; on < ring; ++on) {
          if (sees_some(positions((owner + on) % ring), positions(owner))) hops = on;
        }
        const std::size_t step = (ring_rank + ring - owner) % ring, rows = positions(owner).size();
        keys += step < hops ? rows : 0;
        grads += step >= 1 && step <= hops ? rows : 0;
      }
      ContextParallelAttention attention(place.ulysses(), place.ring(), place.on, place.Config(mask, placement, dtype));
      const std::size_t rows = attention.rows(), others = positions(ring_rank).size() - rows;
      Typed qkv(Values(mixed_shape(rows, kBatch, kHeads, kKvHeads, kWidth)), dtype), grad_qkv = qkv;
      Typed out(Values({rows, kBatch, kHeads, kWidth}), dtype), grad_out = out;
      const std::size_t head = kBatch * kWidth, mixed = kHeads + 2 * kKvHeads, pair = 2 * kKvHeads / ulysses * head;
      // Others' heads of its rows, and its heads of others' rows.
      const auto exchanged = [&](std::size_t scattered_heads, std::size_t gathered_heads) {
        return (rows * scattered_heads * (ulysses - 1) + others * gathered_heads) / ulysses * head * size_of(dtype);
      };
      auto by_ulysses = place.ulysses().bytes_sent(), by_ring = place.ring().bytes_sent();
      const auto expect = [&](std::size_t more_by_ulysses, std::size_t more_by_ring) {
        EXPECT_EQ(place.ulysses().bytes_sent(), by_ulysses += more_by_ulysses);
        EXPECT_EQ(place.ring().bytes_sent(), by_ring += more_by_ring);
      };
      const auto saved = attention.forward(qkv, out);
      expect(exchanged(mixed, kHeads), keys * pair * size_of(dtype));
      attention.backward(qkv, out, saved, grad_out, grad_qkv);
      expect(exchanged(kHeads, mixed), keys * pair * size_of(dtype) + grads * pair * sizeof(float));
    });
    self.Meet();
  });
}

// Thrown where each rank attends: the others wait for it in the exchange of heads, or in their ring.
TEST(ContextParallelThatFails, TellsAllRanksOfBothGroups) {
  struct OutOfMemory : std::runtime_error {
    OutOfMemory() : std::runtime_error("out of memory") {}
  };
  class Failing final : public AttentionCompute {
   public:
    Failing(HostCompute& compute, bool fails) : on_(compute), fails_(fails) {}
    Compute& compute() override { return on_.compute(); }
    void attend(const AttentionInputs& inputs, const SoftmaxState& state) override { on_.attend(inputs, state); }
    void finish(const SoftmaxState& state, const HeadRows& out) override { on_.finish(state, out); }
    void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) override {
      if (fails_) throw OutOfMemory();
      on_.attend_delta(out, grad_out, delta);
    }
    void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                         const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                         const HeadRows& grad_v) override {
      on_.attend_backward(inputs, grad_out, lse, delta, grad_q, grad_k, grad_v);
    }

   private:
    ElementwiseAttention<HostCompute> on_;
    bool fails_;
  };
  for (const auto& [ulysses, ring] : {std::pair{4, 1}, std::pair{2, 2}}) {
    RunRanks(ulysses * ring, [of = Case{ulysses, ring, {0, 13}}](Rank& self) {
      Place place(self, of);
      Failing on(place.compute, self.rank() == 1);
      ContextParallelAttention attention(place.ulysses(), place.ring(), on,
                                         place.Config({}, SequencePlacement::zigzag, tuttiFloat32));
      Values qkv(mixed_shape(attention.rows(), kBatch, kHeads, kKvHeads, kWidth)), grad_qkv = qkv;
      Values out({attention.rows(), kBatch, kHeads, kWidth}), grad_out = out;
      const auto saved = attention.forward(qkv, out);
      const auto backward = [&] { attention.backward(qkv, out, saved, grad_out, grad_qkv); };
      if (self.rank() == 1) {
        EXPECT_THROW(backward(), OutOfMemory);
      } else {
        EXPECT_TRUE(Throws(backward, tuttiRemoteError, {"revoked"}));
      }
      self.Meet();
    });
  }
}

}  // namespace
}  // namespace tutti::parallel
