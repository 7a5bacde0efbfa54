#include "tutti/parallel/fully_sharded_data_parallel.h"

#include "parallel/sharded/fully_sharded_toy.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

TEST(FullyShardedDataParallel, TrainsAsPlainAveragingDoes) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      HostCompute compute;
      for (const auto stage : kStages) {
        for (int shard_group = 1; shard_group <= self.size(); ++shard_group) {
          if (self.size() % shard_group != 0) continue;
          for (const int microbatches : {1, 3}) {
            FullyShardedToy toy(kAwkward, self.rank(), self.size());
            FullyShardedDataParallel fsdp(group, compute, toy.units(),
                                          {.stage = stage, .shard_group_size = shard_group});
            Initialize(fsdp, toy);
            for (int step = 0; step < 3; ++step) {
              TrainStep(fsdp, toy, microbatches);
              toy.ReferenceStep(microbatches);
            }
            TrainStep(fsdp, toy, microbatches);  // whose forward sees the last one's parameters
          }
        }
      }
      self.Meet();
    });
  }
}

// A unit's gradients of one micro-batch are still being reduced when the same unit's next ones begin.
TEST(FullyShardedDataParallel, BackwardPassesMayFollowEachOther) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    for (const auto stage : kStages) {
      FullyShardedToy toy({{5, 6}}, self.rank(), self.size());
      FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = stage});
      Initialize(fsdp, toy);
      for (int microbatch = 0; microbatch < 3; ++microbatch) {
        fsdp.set_requires_gradient_sync(microbatch == 2);
        fsdp.pre_backward(0);
        std::ranges::fill_n(fsdp.grad(0, 0).floats(), 11, stage == ZeroStage::optimizer_state ? 6.0F : 2.0F);
        fsdp.post_backward(0);
      }
      fsdp.finish_gradients();
      for (const float each : FloatsOf(fsdp.shard(0).grad)) EXPECT_EQ(each, 6);
    }
    self.Meet();
  });
}

TEST(FullyShardedDataParallel, EverybodyGetsTheFirstRanksValues) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    FullyShardedDataParallel fsdp(group, compute, UnitsOf({{10}}));
    fsdp.initialize(0, [&](std::size_t, const Tensor& values) {
      std::fill_n(values.floats(), values.count(), static_cast<float>(self.rank() + 7));
    });
    fsdp.pre_forward(0);
    EXPECT_EQ(FloatsOf(fsdp.data(0, 0)), std::vector<float>(10, 7));
    self.Meet();
  });
}

TEST(FullyShardedDataParallel, DividesByWhatItIsTold) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    for (const auto stage : kStages) {
      FullyShardedDataParallel fsdp(group, compute, UnitsOf({{10}}),
                                    {.stage = stage, .shard_group_size = 2, .gradient_divisor = 2});
      fsdp.initialize(0, [](std::size_t, const Tensor&) {});
      fsdp.pre_backward(0);
      std::fill_n(fsdp.grad(0, 0).floats(), 10, static_cast<float>(self.rank()));
      fsdp.post_backward(0);
      fsdp.finish_gradients();
      for (const float each : FloatsOf(fsdp.shard(0).grad)) EXPECT_EQ(each, (0 + 1 + 2 + 3) / 2);
    }
    self.Meet();
  });
}

// A moment of each element, as an optimiser has it, is saved by one number of ranks and loaded by another.
TEST(FullyShardedDataParallel, GathersWhatIsKeptByShards) {
  for (const int ranks : {1, 3, 4}) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      HostCompute compute;
      for (const auto dtype : {tuttiFloat32, tuttiBfloat16}) {
        FullyShardedDataParallel fsdp(group, compute, UnitsOf(kAwkward, dtype),
                                      {.shard_group_size = self.size() == 4 ? 2 : 0});
        for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
          std::size_t count = 0;
          for (const auto size : kAwkward[unit]) count += size;
          auto saved = RandomFloats(count, static_cast<unsigned>(unit));
          const Tensor mine = fsdp.shard_of(unit, Tensor(saved.data(), {count}));
          EXPECT_EQ(mine.shape, fsdp.shard(unit).data.shape);
          std::vector<float> gathered(count);
          fsdp.gather(unit, mine, Tensor(gathered.data(), {count}));
          EXPECT_EQ(gathered, saved);
          EXPECT_TRUE(Throws([&] { fsdp.shard_of(unit, Tensor(saved.data(), {count + 1})); }, tuttiInvalidArgument,
                             {"the whole unit", std::to_string(count), std::to_string(count + 1)}));
        }
      }
      self.Meet();
    });
  }
}

// Would not end if unit i's forward waited for the gather of unit i + 1.
TEST(FullyShardedDataParallel, GathersTheNextUnitWhileOneComputes) {
  RunRanks(2, [](Rank& self) {
    using enum FullyShardedDataParallel::UnitState;
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HeldBack compute(self, 1);  // the first unit's gather, for which every rank waits
    FullyShardedDataParallel fsdp(group, compute, UnitsOf(kAwkward));
    for (std::size_t unit = 0; unit < fsdp.units(); ++unit) fsdp.initialize(unit, [](std::size_t, const Tensor&) {});
    for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
      fsdp.pre_forward(unit);
      compute.computes();
      for (std::size_t other = 0; other < fsdp.units(); ++other) {
        EXPECT_EQ(fsdp.state(other), other == unit ? whole : other == unit + 1 ? gathering : sharded) << unit;
      }
      fsdp.post_forward(unit);
      EXPECT_EQ(fsdp.state(unit), sharded);
    }
    self.Meet();
  });
}

// Would not end if unit i's backward waited for the reduction of unit i + 1's gradients or for the gather of i - 1.
TEST(FullyShardedDataParallel, ReducesGradientsWhileTheNextAreComputed) {
  for (const auto stage : kStages) {
    RunRanks(2, [stage](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      const bool gathers = stage == ZeroStage::parameters;
      HeldBack compute(self, gathers ? 1 : 0);
      const UnitSizes sizes{{3}, {4}, {5}};
      FullyShardedDataParallel fsdp(group, compute, UnitsOf(sizes), {.stage = stage});
      for (std::size_t unit = 0; unit < sizes.size(); ++unit) fsdp.initialize(unit, [](std::size_t, const Tensor&) {});
      for (std::size_t unit = sizes.size(); unit-- > 0;) {
        fsdp.pre_backward(unit);
        const int reduces = unit + 1 < sizes.size() ? 1 : 0, gathers_next = gathers && unit > 0 ? 1 : 0;
        for (int i = 0; i < reduces + gathers_next; ++i) compute.computes();
        fsdp.post_backward(unit);
      }
      compute.computes();  // the last reduction overlaps with nothing
      fsdp.finish_gradients();
      self.Meet();
    });
  }
}

}  // namespace
}  // namespace tutti::parallel
