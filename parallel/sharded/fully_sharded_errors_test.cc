// Arguments that sharding refuses, on every rank.
#include <csignal>

#include "parallel/sharded/fully_sharded_toy.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// Expects that every rank's construction fails like this, sends only its questions, and leaves the group alive.
void ExpectRefused(Rank& self, ProcessGroup& group, const std::vector<ShardedUnit>& units,
                   const FullyShardedDataParallelConfig& config, tuttiResult_t code,
                   const std::vector<std::string>& words) {
  HostCompute compute;
  EXPECT_TRUE(Throws([&] { FullyShardedDataParallel(group, compute, units, config); }, code, words)) << self.rank();
  group.barrier();
}

TEST(FullyShardedDataParallel, NamesGroupsThatDoNotDivide) {
  RunRanks(6, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    ExpectRefused(self, group, UnitsOf({{4}}), {.shard_group_size = 4}, tuttiInvalidArgument,
                  {"size (6)", "shard_group_size (4)"});
    ExpectRefused(self, group, UnitsOf({{4}}), {.shard_group_size = -2}, tuttiInvalidArgument, {"(-2)"});
    // On one rank alone.
    ExpectRefused(self, group, UnitsOf({{4}}), {.shard_group_size = self.rank() == 3 ? 12 : 3}, tuttiInvalidArgument,
                  {"rank 3", "size (6)", "shard_group_size (12)"});
    self.Meet();
  });
}

TEST(FullyShardedDataParallel, NamesModelsAndSettingsThatDiffer) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const auto refused = [&](const UnitSizes& mine, const UnitSizes& of_rank_2, const std::vector<std::string>& words) {
      ExpectRefused(self, group, UnitsOf(self.rank() == 2 ? of_rank_2 : mine), {}, tuttiInvalidUsage, words);
    };
    refused({{4}, {3, 5}}, {{4}, {3, 6}},
            {"rank 0", "\"weight1\" float32 [5] in unit \"unit1\"", "rank 2", "\"weight1\" float32 [6]"});
    refused({{4}, {3, 5}}, {{3, 5}, {4}}, {"\"weight0\" float32 [4] in unit \"unit0\"", "float32 [3]"});  // order
    refused({{4, 3}}, {{4}, {3}}, {"in unit \"unit0\"", "\"weight0\" float32 [3] in unit \"unit1\""});
    refused({{4, 3}}, {{4, 3}, {3}}, {"has 2 parameters", "rank 2 has 3"});
    const auto stage = self.rank() == 1 ? ZeroStage::gradients : ZeroStage::parameters;
    ExpectRefused(self, group, UnitsOf({{4}}), {.stage = stage}, tuttiInvalidUsage,
                  {"rank 0", "ZeRO stage 3", "rank 1", "ZeRO stage 2"});
    self.Meet();
  });
}

TEST(FullyShardedDataParallel, NamesUnitsThatCannotBe) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const auto refused = [&](const std::vector<ShardedUnit>& of_rank_1, const std::vector<std::string>& words) {
      ExpectRefused(self, group, self.rank() == 1 ? of_rank_1 : UnitsOf({{4}}), {}, tuttiInvalidArgument, words);
    };
    refused(UnitsOf({{4, 0}}), {"rank 1", "unit0: weight1", "[0]"});
    refused(UnitsOf({{4}, {}}), {"\"unit1\" has no parameters"});
    refused(UnitsOf({{4}}, tuttiInt32), {"\"weight0\"", "int32"});
    auto units = UnitsOf({{4, 4}});
    units[0].parameters[1].data.dtype = tuttiBfloat16;
    refused(units, {"\"weight0\" is float32", "\"weight1\" is bfloat16"});
    units = UnitsOf({{4, 4}});
    units[0].parameters[1].name = "weight0";
    refused(units, {"two parameters", "unit0: weight0"});
    self.Meet();
  });
}

TEST(FullyShardedDataParallel, RefusesWhatIsNotThere) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    for (const auto stage : kStages) {
      FullyShardedToy toy({{5}, {6}, {7}}, self.rank(), self.size());
      FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = stage});
      const auto refused = [&](const std::function<void()>& call, const char* word) {
        EXPECT_TRUE(Throws(call, tuttiInvalidUsage, {word})) << static_cast<int>(stage);
      };
      refused([&] { fsdp.pre_forward(0); }, "initialize");
      Initialize(fsdp, toy);
      const bool freed = stage == ZeroStage::parameters;
      if (freed) refused([&] { fsdp.data(0, 0); }, "\"unit0\"");
      fsdp.pre_forward(0);
      toy.forward(fsdp, 0);
      if (freed) refused([&] { fsdp.data(1, 0); }, "\"unit1\"");  // being gathered
      if (freed) refused([&] { fsdp.data(2, 0); }, "\"unit2\"");
      if (stage >= ZeroStage::gradients) refused([&] { fsdp.grad(0, 0); }, "gradients of unit \"unit0\"");
      fsdp.post_forward(0);
      if (freed) refused([&] { fsdp.data(0, 0); }, "\"unit0\"");
      fsdp.pre_backward(0);
      toy.backward(fsdp, 0, 0);
      fsdp.post_backward(0);
      if (stage >= ZeroStage::gradients) refused([&] { fsdp.grad(0, 0); }, "gradients of unit \"unit0\"");
      refused([&] { fsdp.zero_grad(); }, "finish_gradients()");
      fsdp.set_requires_gradient_sync(false);
      refused([&] { fsdp.finish_gradients(); }, "set_requires_gradient_sync(false)");
      fsdp.set_requires_gradient_sync(true);
      fsdp.finish_gradients();
      fsdp.parameters_updated();
      refused([&] { fsdp.data(0, 0); }, "\"unit0\"");  // the gathered copy is the last step's
    }
    self.Meet();
  });
}

TEST(FullyShardedDataParallel, TellsWhoDiedWhileUnitsAreOnTheirWay) {
  for (const auto stage : kStages) {
    const auto body = [stage](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      HostCompute compute;
      FullyShardedToy toy(kAwkward, self.rank(), self.size());
      FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = stage});
      Initialize(fsdp, toy);
      TrainStep(fsdp, toy, 1);
      toy.ReferenceStep(1);
      fsdp.pre_forward(0);
      if (self.rank() == 2) std::raise(SIGKILL);
      fsdp.post_forward(0);
      EXPECT_TRUE(Throws([&] { TrainStep(fsdp, toy, 1); }, tuttiRemoteError, {"rank 2", "died"}));
    };
    RunRanks(3, body, {.may_die = {2}});
  }
}

}  // namespace
}  // namespace tutti::parallel
