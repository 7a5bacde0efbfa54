// Arguments that do not fit give the same error on every rank, before anything is sent.
#include "parallel/context/attention_testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/context_parallel.h"
#include "tutti/parallel/device_mesh.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

struct Sides {
  explicit Sides(Rank& self)
      : comm(self.Join()), world(comm), mesh(world, MeshLayout({{"ring", 2}, {"ulysses", 2}})), on(compute) {}

  ContextParallelAttention Make(const ContextParallelConfig& config) {
    return {mesh.group("ulysses"), mesh.group("ring"), on, config};
  }
  std::uint64_t BytesSent() { return mesh.group("ulysses").bytes_sent() + mesh.group("ring").bytes_sent(); }

  tutti::testing::Comm comm;
  ProcessGroup world;
  DeviceMesh mesh;
  HostCompute compute;
  ElementwiseAttention<HostCompute> on;
};

TEST(ContextParallelErrors, NameWhatDoesNotDivideOnEveryRank) {
  RunRanks(4, [](Rank& self) {
    Sides sides(self);
    const auto refused = [&](const ContextParallelConfig& config, const std::vector<std::string>& words) {
      EXPECT_TRUE(Throws([&] { sides.Make(config); }, tuttiInvalidArgument, words));
    };
    refused({.sequence = 16, .batch = 1, .heads = 3, .width = 4}, {"the number of heads (3)", "ulysses_size (2)"});
    refused({.sequence = 16, .batch = 1, .heads = 1, .width = 4}, {"the number of heads (1)", "ulysses_size (2)"});
    const auto kv = [](std::size_t heads, std::size_t kv_heads) {
      return ContextParallelConfig{.sequence = 16, .batch = 1, .heads = heads, .width = 4, .kv_heads = kv_heads};
    };
    refused(kv(4, 3), {"the number of heads (4)", "kv_heads (3)"});
    refused(kv(4, 8), {"the number of heads (4)", "kv_heads (8)"});
    refused(kv(6, 3), {"kv_heads (3)", "ulysses_size (2)"});
    refused({.sequence = 16, .batch = 1, .heads = 2, .width = 4, .causal = false, .window = 5},
            {"the window is 5", "not causal"});
    refused({.sequence = 16, .batch = 1, .heads = 2, .width = 4, .dtype = tuttiFloat16},
            {"float16", "float32 or bfloat16"});
    const auto samples = [](std::vector<std::size_t> cu_seqlens) {
      return ContextParallelConfig{
          .sequence = 16, .batch = 1, .heads = 2, .width = 4, .cu_seqlens = std::move(cu_seqlens)};
    };
    refused(samples({0, 9, 15}), {"the last of cu_seqlens is 15", "the sequence's length is 16"});
    refused(samples({2, 9, 16}), {"the first of cu_seqlens is 2"});
    refused(samples({0, 9, 8, 16}), {"cu_seqlens has 8 behind 9"});
    self.Meet();
  });
}

// Also where a rank's own configuration would be refused by itself: the others get its value.
TEST(ContextParallelErrors, RanksThatDisagreeAreToldBothValues) {
  RunRanks(4, [](Rank& self) {
    Sides sides(self);
    const ContextParallelConfig config{.sequence = 16, .batch = 2, .heads = 4, .width = 4};
    const auto differs = [&](auto change, const std::vector<std::string>& words) {
      auto mine = config;
      if (self.rank() == 2) change(mine);
      EXPECT_TRUE(Throws([&] { sides.Make(mine); }, tuttiInvalidUsage, words));
    };
    differs([](auto& mine) { mine.batch = 3; }, {"the batch is 2 on context-parallel rank 0, but 3 on rank 2"});
    differs([](auto& mine) { mine.sequence = 17; }, {"the sequence's length is 16", "but 17 on rank 2"});
    differs([](auto& mine) { mine.heads = 8; }, {"the number of heads is 4", "but 8 on rank 2"});
    differs([](auto& mine) { mine.width = 5; }, {"the width of a head is 4", "but 5 on rank 2"});
    differs([](auto& mine) { mine.causal = false; }, {"the mask (1: causal) is 1", "but 0 on rank 2"});
    differs([](auto& mine) { mine.kv_heads = 2; }, {"heads of keys and values is 4", "but 2 on rank 2"});
    differs([](auto& mine) { mine.window = 7; }, {"the window is 0", "but 7 on rank 2"});
    differs([](auto& mine) { mine.dtype = tuttiBfloat16; }, {"type's code is 7", "but 9 on rank 2"});
    differs([](auto& mine) { mine.placement = SequencePlacement::contiguous; }, {"the placement", "but 0 on rank 2"});
    differs([](auto& mine) { mine.cu_seqlens = {0, 7, 16}; }, {"the size of cu_seqlens is 2", "but 3 on rank 2"});
    differs([](auto& mine) { mine.cu_seqlens = {0, 15}; }, {"the last of cu_seqlens is 16", "but 15 on rank 2"});
    auto packed = config;
    packed.cu_seqlens = {0, self.rank() == 2 ? 8U : 7U, 16};
    EXPECT_TRUE(Throws([&] { sides.Make(packed); }, tuttiInvalidUsage, {"cu_seqlens[1] is 7", "but 8 on rank 2"}));
    sides.Make(config);  // the groups still work
    self.Meet();
  });
}

TEST(ContextParallelErrors, ShapesAreCheckedBeforeAnythingIsSent) {
  RunRanks(4, [](Rank& self) {
    Sides sides(self);
    auto attention = sides.Make({.sequence = 16, .batch = 2, .heads = 4, .width = 4});
    auto halves = sides.Make({.sequence = 16, .batch = 2, .heads = 4, .width = 4, .kv_heads = 2});
    Values qkv({4, 2, 4, 3, 4}), out({4, 2, 4, 4}), whole({16, 2, 4, 3, 4}), other({4, 2, 4, 5});
    const auto before = sides.BytesSent();
    const auto names = [&](const std::function<void()>& call, const std::vector<std::string>& words) {
      EXPECT_TRUE(Throws(call, tuttiInvalidArgument, words));
    };
    names([&] { attention.forward(whole, out); }, {"qkv", "[16, 2, 4, 3, 4]", "[4, 2, 4, 3, 4]"});
    names([&] { attention.forward(qkv, other); }, {"out", "[4, 2, 4, 5]", "[4, 2, 4, 4]"});
    names([&] { attention.forward(Tensor(qkv.values.data(), qkv.shape, tuttiInt32), out); }, {"qkv is int32"});
    names([&] { halves.forward(qkv, out); }, {"qkv", "[4, 2, 4, 3, 4]", "[4, 2, 2, 4, 4]"});
    names([&] { attention.backward(qkv, out, {}, other, qkv); }, {"grad_out", "[4, 2, 4, 5]", "[4, 2, 4, 4]"});
    names([&] { attention.backward(qkv, out, {}, out, whole); }, {"grad_qkv", "[16, 2, 4, 3, 4]"});
    auto& group = sides.mesh.group("ulysses");
    Values three({2, 2, 3, 4}), joined({4, 2, 2, 4});
    names([&] { scatter_heads_gather_sequence(group, sides.compute, three, joined); },
          {"the number of heads (3)", "the Ulysses group's size (2)"});
    names([&] { scatter_sequence_gather_heads(group, sides.compute, joined, out); },
          {"the part of the sequence", "[4, 2, 4, 4]", "[2, 2, 4, 4]"});
    EXPECT_EQ(sides.BytesSent(), before);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
