// A ring's blocks travel while the present one is computed: neither waits for the other.
#include "tutti/parallel/ring_attention.h"

#include <chrono>
#include <functional>
#include <thread>

#include "parallel/context/attention_testing.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// Calls `before` before each block.
class Watched final : public AttentionCompute {
 public:
  Watched(HostCompute& compute, std::function<void()> before) : on_(compute), before_(std::move(before)) {}

  Compute& compute() override { return on_.compute(); }
  void attend(const AttentionInputs& inputs, const SoftmaxState& state) override {
    before_();
    on_.attend(inputs, state);
  }
  void finish(const SoftmaxState& state, const HeadRows& out) override { on_.finish(state, out); }
  void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) override {
    on_.attend_delta(out, grad_out, delta);
  }
  void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                       const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                       const HeadRows& grad_v) override {
    before_();
    on_.attend_backward(inputs, grad_out, lse, delta, grad_q, grad_k, grad_v);
  }

 private:
  ElementwiseAttention<HostCompute> on_;
  std::function<void()> before_;
};

// Whether `condition` becomes true, within a time that is many times enough.
bool BecomesTrue(const std::function<bool()>& condition) {
  constexpr std::chrono::seconds kLimit{10};
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Layer {
  Values qkv = Values::Random({8, 2, 3, 3, 5}, 1), grad_qkv{qkv.shape};
  Values out{{8, 2, 3, 5}}, grad_out = Values::Random(out.shape, 2), lse{{8, 2, 3, 1}};
};

// A block begins only once all messages up to its own step's have been sent.
TEST(RingAttention, SendsWhileItComputes) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    Layer layer;
    const std::uint64_t pair = 2 * layer.out.values.size() * sizeof(float);  // keys and values, or their gradients
    // Forward, then backward, where gradients of keys and values follow two steps behind.
    const std::vector<std::uint64_t> steps{1, 2, 3, 3, 3 + 1, 3 + 2, 3 + 4, 3 + 5};
    std::size_t block = 0;
    const auto before = group.bytes_sent();
    Watched on(compute, [&] {
      const auto wanted = before + steps.at(block++) * pair;
      EXPECT_TRUE(BecomesTrue([&] { return group.bytes_sent() >= wanted; })) << "block " << block;
    });
    RingAttention ring(group, on, SequencePlacement::zigzag, {0, 8 * 4}, {.causal = true});
    ring.forward(layer.qkv, layer.out, layer.lse);
    ring.backward(layer.qkv, layer.out, layer.lse, layer.grad_out, layer.grad_qkv);
    EXPECT_EQ(block, steps.size());
    EXPECT_EQ(group.bytes_sent(), before + (3 + 6) * pair);
    self.Meet();
  });
}

// Rank 1 sends nothing until rank 0 computes; so rank 0 does not wait for it before that.
TEST(RingAttention, ComputesBeforeTheNextBlockIsThere) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    Layer layer;
    auto& begun = self.board().numbers[0];
    Watched on(compute, [&] { begun += self.rank() == 0 ? 1 : 0; });
    RingAttention ring(group, on, SequencePlacement::zigzag, {0, 8 * 2}, {.causal = true});
    const auto await_blocks = [&](int blocks) {
      EXPECT_TRUE(self.rank() == 0 || BecomesTrue([&] { return begun >= blocks; })) << blocks;
    };
    await_blocks(1);
    ring.forward(layer.qkv, layer.out, layer.lse);
    await_blocks(2 + 1);
    ring.backward(layer.qkv, layer.out, layer.lse, layer.grad_out, layer.grad_qkv);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
