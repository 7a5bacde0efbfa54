// Sharding under the schedules of pipelines: passes through several chunks in turn, and backwards in two parts. All
// ranks are one stage's.
#include <numeric>

#include "parallel/sharded/fully_sharded_toy.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

constexpr int kMicrobatches = 4;

std::vector<PipelineSchedule> Schedules() {
  return {gpipe(2, kMicrobatches), one_forward_one_backward(2, kMicrobatches),
          interleaved_one_forward_one_backward(2, kMicrobatches, 2),
          interleaved_one_forward_one_backward(2, kMicrobatches, 5),  // a unit a chunk
          zero_bubble_h1(3, kMicrobatches)};
}

void ForEachStage(const std::function<void(const PipelineSchedule& schedule, int stage)>& call) {
  for (const auto& schedule : Schedules()) {
    for (int stage = 0; stage < schedule.stages; ++stage) call(schedule, stage);
  }
}

TEST(FullyShardedPipeline, TrainsAsPlainAveragingDoes) {
  for (const int ranks : {1, 2, 3, 4}) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      HostCompute compute;
      ForEachStage([&](const PipelineSchedule& schedule, int stage) {
        for (const auto zero : kStages) {
          for (const int shard_group : {0, 2}) {
            if (shard_group != 0 && self.size() % shard_group != 0) continue;
            FullyShardedToy toy(kAwkward, self.rank(), self.size(), static_cast<std::size_t>(schedule.chunks));
            FullyShardedDataParallel fsdp(group, compute, toy.units(),
                                          {.stage = zero, .shard_group_size = shard_group});
            Initialize(fsdp, toy);
            for (int step = 0; step < 2; ++step) {
              TrainStep(fsdp, toy, schedule, stage);
              toy.ReferenceStep(kMicrobatches);
            }
            TrainStep(fsdp, toy, schedule, stage);  // whose forward sees the last one's parameters
          }
        }
      });
      self.Meet();
    });
  }
}

// The second parts come in the order of the micro-batches, and so do 1F1B's backwards.
TEST(FullyShardedPipeline, TwoPartsGiveTheBitsOfOne) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    for (const auto zero : kStages) {
      const auto train = [&](const PipelineSchedule& schedule, int stage) {
        FullyShardedToy toy(kAwkward, self.rank(), self.size());
        FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = zero});
        Initialize(fsdp, toy);
        for (int step = 0; step < 3; ++step) {
          TrainStep(fsdp, toy, schedule, stage);
          toy.ReferenceStep(kMicrobatches);
        }
        std::vector<float> shards;
        for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
          for (const float each : FloatsOf(fsdp.shard(unit).data)) shards.push_back(each);
        }
        return shards;
      };
      const auto once = train(one_forward_one_backward(3, kMicrobatches), 0);
      for (int stage = 0; stage < 3; ++stage) EXPECT_EQ(train(zero_bubble_h1(3, kMicrobatches), stage), once);
    }
    self.Meet();
  });
}

// The most that a stage takes besides its shards, from one use of a unit after the other.
struct Peak {
  Peak(const FullyShardedToy& toy, const UnitSizes& sizes, const PipelineSchedule& schedule, int stage, int ranks,
       int rank) {
    const auto all = [&](std::size_t unit) {
      return std::accumulate(sizes[unit].begin(), sizes[unit].end(), std::size_t{0});
    };
    const auto mine = [&](std::size_t unit) {
      const FlatParameter flat({{all(unit)}}, static_cast<std::size_t>(ranks));
      return flat.shard_counts()[static_cast<std::size_t>(rank)];
    };
    struct Use {
      std::size_t unit;
      PipelinePass pass;
    };
    std::vector<Use> uses;
    for (const auto& action : schedule.actions[static_cast<std::size_t>(stage)]) {
      auto units = toy.units_of_chunk(static_cast<std::size_t>(action.chunk));
      if (action.pass != PipelinePass::forward) std::ranges::reverse(units);
      for (const auto unit : units) uses.push_back({unit, action.pass});
    }
    std::map<std::size_t, int> times;
    std::size_t left = 0;  // gradients of the use before, to be reduced
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const auto [unit, pass] = uses[i];
      const std::size_t held = pass == PipelinePass::backward_weight ? 0 : all(unit);
      const bool ahead = i + 1 < uses.size() && uses[i + 1].pass != PipelinePass::backward_weight &&
                         (held == 0 || uses[i + 1].unit != unit);
      parameters = std::max(parameters, held + (ahead ? all(uses[i + 1].unit) : 0));
      if (i > 0 && uses[i - 1].unit == unit) left = 0;  // its own gradients, for which it waits
      const std::size_t added = pass == PipelinePass::backward ? all(unit) : 0;
      gradients = std::max(gradients, added + left);
      left = added + (added > 0 && times[unit]++ > 0 ? mine(unit) : 0);
      gradients = std::max(gradients, left);
    }
    std::array<std::size_t, 2> places{};
    std::size_t arrived = 0;
    for (std::size_t unit = 0; unit < sizes.size(); ++unit) {
      shard += mine(unit);
      places[unit % 2] = std::max(places[unit % 2], all(unit));
      arrived = std::max(arrived, mine(unit));
    }
    if (schedule.name == "ZB-H1") gradients = places[0] + places[1] + arrived;
  }
  std::size_t shard = 0;
  std::size_t parameters = 0, gradients = 0;
};

TEST(FullyShardedPipeline, TakesTheMemoryOfTheFormulas) {
  for (const int ranks : {2, 3}) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      ForEachStage([&](const PipelineSchedule& schedule, int stage) {
        CountingCompute compute;
        MemoryAccount account;
        FullyShardedToy toy(kAwkward, self.rank(), self.size(), static_cast<std::size_t>(schedule.chunks));
        FullyShardedDataParallel fsdp(group, compute, toy.units(), {.memory = &account});
        Initialize(fsdp, toy);
        TrainStep(fsdp, toy, schedule, stage);
        const Peak peak(toy, kAwkward, schedule, stage, self.size(), self.rank());
        EXPECT_EQ(account.peak(MemoryKind::parameters), (peak.shard + peak.parameters) * sizeof(float))
            << schedule.name << ", stage " << stage << " of " << schedule.chunks << " chunks";
        EXPECT_EQ(account.peak(MemoryKind::gradients), (peak.shard + peak.gradients) * sizeof(float))
            << schedule.name << ", stage " << stage << " of " << schedule.chunks << " chunks";
        EXPECT_EQ(account.peak(), compute.peak());
        // Between steps only shards remain.
        EXPECT_EQ(account.now(MemoryKind::parameters), peak.shard * sizeof(float));
        EXPECT_EQ(account.now(MemoryKind::gradients), peak.shard * sizeof(float));
        EXPECT_EQ(account.now(), compute.now());
      });
      self.Meet();
    });
  }
}

TEST(FullyShardedPipeline, GathersAheadInsideAChunkOnly) {
  RunRanks(2, [](Rank& self) {
    using enum FullyShardedDataParallel::UnitState;
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    FullyShardedToy toy({{3}, {4}, {5}, {6}}, self.rank(), self.size(), 2);
    FullyShardedDataParallel fsdp(group, compute, toy.units(), {});
    Initialize(fsdp, toy);
    const auto states = [&] {
      std::vector<FullyShardedDataParallel::UnitState> all;
      for (std::size_t unit = 0; unit < fsdp.units(); ++unit) all.push_back(fsdp.state(unit));
      return all;
    };
    using States = std::vector<FullyShardedDataParallel::UnitState>;
    const auto forward = [&](std::size_t unit, const States& wanted) {
      fsdp.pre_forward(unit);
      EXPECT_EQ(states(), wanted) << unit;
      fsdp.post_forward(unit);
    };
    forward(0, {whole, gathering, sharded, sharded});
    forward(1, {sharded, whole, sharded, sharded});
    forward(2, {sharded, sharded, whole, gathering});
    forward(3, {sharded, sharded, sharded, whole});
    const auto backward_input = [&](std::size_t unit, const States& wanted) {
      fsdp.pre_backward_input(unit);
      EXPECT_EQ(states(), wanted) << unit;
      fsdp.post_backward_input(unit);
    };
    backward_input(3, {sharded, sharded, gathering, whole});
    backward_input(2, {sharded, sharded, whole, sharded});
    fsdp.pre_backward_weight(3);
    EXPECT_EQ(states(), States(4, sharded));
    fsdp.post_backward_weight(3);
    fsdp.pre_backward_weight(2);
    fsdp.post_backward_weight(2);
    fsdp.pre_backward(1);
    EXPECT_EQ(states(), (States{gathering, whole, sharded, sharded}));
    fsdp.post_backward(1);
    fsdp.pre_backward(0);
    fsdp.post_backward(0);
    fsdp.finish_gradients();
    self.Meet();
  });
}

// The unit with which the next pass begins, if it is named, is gathered while this pass's last unit computes.
TEST(FullyShardedPipeline, GathersTheNextPassAhead) {
  RunRanks(2, [](Rank& self) {
    using enum FullyShardedDataParallel::UnitState;
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    FullyShardedToy toy({{3}, {4}, {5}, {6}}, self.rank(), self.size(), 2);
    FullyShardedDataParallel fsdp(group, compute, toy.units(), {});
    Initialize(fsdp, toy);
    fsdp.set_next_pass(3);
    fsdp.pre_forward(0);
    EXPECT_EQ(fsdp.state(1), gathering);
    EXPECT_EQ(fsdp.state(3), sharded);
    fsdp.post_forward(0);
    fsdp.pre_forward(1);
    EXPECT_EQ(fsdp.state(3), gathering);
    fsdp.post_forward(1);
    fsdp.set_next_pass(3);
    fsdp.pre_backward_input(3);
    fsdp.post_backward_input(3);
    fsdp.pre_backward_input(2);
    EXPECT_EQ(fsdp.state(3), gathering);
    fsdp.post_backward_input(2);
    fsdp.set_next_pass(2);
    fsdp.pre_backward_weight(3);
    EXPECT_EQ(fsdp.state(2), sharded);
    fsdp.post_backward_weight(3);
    fsdp.pre_backward_weight(2);
    EXPECT_EQ(fsdp.state(2), gathering);  // whose gradients are computed, without parameters
    fsdp.post_backward_weight(2);
    fsdp.pre_forward(2);
    fsdp.post_forward(2);
    fsdp.set_next_pass(3);
    fsdp.pre_forward(3);  // in use, and so not gathered ahead
    EXPECT_EQ(fsdp.state(3), whole);
    fsdp.post_forward(3);
    EXPECT_EQ(fsdp.state(3), sharded);
    fsdp.pre_backward(3);
    fsdp.post_backward(3);
    fsdp.pre_backward(2);  // the last one named has been used up
    for (const std::size_t unit : {0, 1, 3}) EXPECT_EQ(fsdp.state(unit), sharded);
    fsdp.post_backward(2);
    fsdp.finish_gradients();
    EXPECT_TRUE(Throws([&] { fsdp.set_next_pass(4); }, tuttiInvalidArgument, {"unit 4 of 4"}));
    self.Meet();
  });
}

// Would not end if unit i's second part waited for the reduction of unit i + 1's gradients.
TEST(FullyShardedPipeline, ReducesGradientsWhileTheNextAreComputed) {
  for (const auto zero : kStages) {
    RunRanks(2, [zero](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      const UnitSizes sizes{{3}, {4}, {5}};
      // The first parts' gathers, for which every rank waits.
      HeldBack compute(self, zero == ZeroStage::parameters ? 3 : 0);
      FullyShardedDataParallel fsdp(group, compute, UnitsOf(sizes), {.stage = zero});
      for (std::size_t unit = 0; unit < sizes.size(); ++unit) fsdp.initialize(unit, [](std::size_t, const Tensor&) {});
      for (std::size_t unit = sizes.size(); unit-- > 0;) {
        fsdp.pre_backward_input(unit);
        fsdp.post_backward_input(unit);
      }
      for (std::size_t unit = sizes.size(); unit-- > 0;) {
        fsdp.pre_backward_weight(unit);
        if (unit + 1 < sizes.size()) compute.computes();
        fsdp.post_backward_weight(unit);
      }
      compute.computes();  // the last reduction overlaps with nothing
      fsdp.finish_gradients();
      self.Meet();
    });
  }
}

TEST(FullyShardedPipeline, RefusesWhatIsNotThere) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    for (const auto zero : kStages) {
      FullyShardedToy toy({{5}, {6}}, self.rank(), self.size());
      FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = zero});
      Initialize(fsdp, toy);
      const auto refused = [&](const std::function<void()>& call, const std::vector<std::string>& words) {
        EXPECT_TRUE(Throws(call, tuttiInvalidUsage, words)) << static_cast<int>(zero);
      };
      refused([&] { fsdp.pre_backward_weight(1); }, {"unit \"unit1\"", "more often than post_backward_input()"});
      for (const int microbatch : {0, 1}) DoPass(fsdp, toy, {PipelinePass::backward_input, microbatch});
      if (zero == ZeroStage::parameters) refused([&] { fsdp.data(1, 0); }, {"unit \"unit1\""});
      if (zero >= ZeroStage::gradients) refused([&] { fsdp.grad(1, 0); }, {"unit \"unit1\"", "pre_backward_weight()"});
      refused([&] { fsdp.finish_gradients(); }, {"2 backward_weight of unit \"unit0\" are to come"});
      DoPass(fsdp, toy, {PipelinePass::backward_weight, 0});
      refused([&] { fsdp.finish_gradients(); }, {"1 backward_weight of unit \"unit0\" is to come"});
      fsdp.pre_backward_weight(1);
      if (zero == ZeroStage::parameters) refused([&] { fsdp.data(1, 0); }, {"unit \"unit1\""});
      fsdp.grad(1, 0);
      toy.backward_weight(1, 1);
      fsdp.post_backward_weight(1);
      refused([&] { fsdp.pre_backward_weight(1); }, {"unit \"unit1\""});
      fsdp.pre_backward_weight(0);
      toy.backward_weight(0, 1);
      fsdp.post_backward_weight(0);
      fsdp.finish_gradients();
    }
    self.Meet();
  });
}

TEST(FullyShardedPipeline, NamesChunksOutOfOrder) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    auto units = UnitsOf({{4}, {5}, {6}});
    units[1].chunk = 1;
    EXPECT_TRUE(Throws([&] { FullyShardedDataParallel(group, compute, units); }, tuttiInvalidArgument,
                       {"unit \"unit2\" of chunk 0", "after a unit of chunk 1"}));
    units[2].chunk = 1 + self.rank();
    EXPECT_TRUE(Throws([&] { FullyShardedDataParallel(group, compute, units); }, tuttiInvalidUsage,
                       {"unit \"unit2\" of chunk 1", "unit \"unit2\" of chunk 2"}));
    group.barrier();
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
