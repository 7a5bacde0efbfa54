// Memory and bytes that sharding takes, against the papers' formulas; and parameters in bfloat16 with a master copy.
#include <cmath>
#include <numeric>

#include "parallel/sharded/fully_sharded_toy.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

struct Sizes {
  Sizes(const UnitSizes& sizes, int ranks, int rank) {
    for (const auto& unit : sizes) {
      units.push_back(std::accumulate(unit.begin(), unit.end(), std::size_t{0}));
      all += units.back();
      const FlatParameter flat({{units.back()}}, static_cast<std::size_t>(ranks));
      mine.push_back(flat.shard_counts()[static_cast<std::size_t>(rank)]);
      shard += mine.back();
    }
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
      two = std::max(two, units[i] + units[i + 1]);
      two_and_arrived = std::max(two_and_arrived, units[i] + units[i + 1] + mine[i + 1]);
    }
  }
  std::vector<std::size_t> units, mine;
  std::size_t all = 0, shard = 0;   // of elements: the model, this rank's shards
  std::size_t two = 0;              // the two largest neighbours
  std::size_t two_and_arrived = 0;  // with the arrived shard of the one that is being reduced
};

TEST(FullyShardedDataParallel, TakesTheMemoryOfTheFormulas) {
  for (const int ranks : {1, 2, 3, 8}) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      const Sizes sizes(kAwkward, self.size(), self.rank());
      for (const auto stage : kStages) {
        for (const int microbatches : {1, 2}) {
          CountingCompute compute;
          MemoryAccount account;
          FullyShardedToy toy(kAwkward, self.rank(), self.size());
          FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = stage, .memory = &account});
          std::vector<Buffer> moments;  // two, as Adam has
          for (std::size_t unit = 0; unit < 2 * fsdp.units(); ++unit) {
            moments.push_back(account.make(MemoryKind::optimizer_state, compute, fsdp.shard(unit / 2).data.shape));
          }
          Initialize(fsdp, toy);
          TrainStep(fsdp, toy, microbatches);

          // One rank has no other to share with.
          const auto shares = [&](ZeroStage what) { return self.size() > 1 && stage >= what; };
          const std::size_t parameters = shares(ZeroStage::parameters) ? sizes.shard + sizes.two : sizes.all;
          const std::size_t in_flight = microbatches == 1 ? sizes.two : sizes.two_and_arrived;
          const std::size_t gradients = shares(ZeroStage::gradients) ? sizes.shard + in_flight : sizes.all;
          EXPECT_EQ(account.peak(MemoryKind::parameters), parameters * sizeof(float));
          EXPECT_EQ(account.peak(MemoryKind::gradients), gradients * sizeof(float));
          EXPECT_EQ(account.peak(MemoryKind::optimizer_state), 2 * sizes.shard * sizeof(float));
          // Nothing else was allocated, and between steps only shards are kept of sharded state.
          EXPECT_EQ(account.peak(), compute.peak());
          EXPECT_EQ(account.now(), compute.now());
          EXPECT_EQ(account.now(MemoryKind::parameters),
                    (shares(ZeroStage::parameters) ? sizes.shard : sizes.all) * sizeof(float));
          EXPECT_EQ(account.now(MemoryKind::gradients),
                    (shares(ZeroStage::gradients) ? sizes.shard : sizes.all) * sizeof(float));
        }
      }
      self.Meet();
    });
  }
}

// The sum over all ranks.
std::uint64_t Total(ProcessGroup& world, std::uint64_t mine) {
  const Tensor total(&mine, {1}, tuttiUint64);
  world.all_reduce(total, total, tuttiSum);
  return mine;
}

TEST(FullyShardedDataParallel, SendsTheBytesOfTheFormulas) {
  for (const int ranks : {2, 3, 4, 6}) {
    RunRanks(ranks, [](Rank& self) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.algorithm = "ring";
      const auto comm = self.Join();
      ProcessGroup world(comm);
      std::vector<int> everybody(static_cast<std::size_t>(self.size()));
      std::iota(everybody.begin(), everybody.end(), 0);
      ProcessGroup group(world, "dp", everybody, config);
      HostCompute compute;
      const std::size_t bytes = Sizes(kAwkward, 1, 0).all * sizeof(float);
      for (const auto stage : kStages) {
        for (int shard_group = 2; shard_group <= self.size(); ++shard_group) {
          if (self.size() % shard_group != 0) continue;
          for (const int microbatches : {1, 3}) {
            FullyShardedToy toy(kAwkward, self.rank(), self.size());
            FullyShardedDataParallel fsdp(group, compute, toy.units(),
                                          {.stage = stage, .shard_group_size = shard_group, .communicators = config});
            Initialize(fsdp, toy);
            TrainStep(fsdp, toy, microbatches);
            toy.ReferenceStep(microbatches);
            const auto sent = [&] {
              auto all = group.bytes_sent();
              for (const auto& [name, more] : fsdp.bytes_sent()) all += more;
              return all;
            };
            const auto before = sent();
            TrainStep(fsdp, toy, microbatches);
            const auto gathers = stage == ZeroStage::parameters ? 2 * microbatches : 1;
            const auto reduces = stage >= ZeroStage::gradients ? microbatches : 1;
            const int replicas = self.size() / shard_group;
            EXPECT_EQ(Total(world, sent() - before),
                      bytes * static_cast<std::uint64_t>((gathers + reduces) * (shard_group - 1) * replicas +
                                                         2 * (replicas - 1)))
                << static_cast<int>(stage) << " over " << shard_group;
          }
        }
      }
      self.Meet();
    });
  }
}

float AsBfloat16(float value) {
  HostCompute compute;
  std::uint16_t bits = 0;
  const Tensor from(&value, {1}), to(&bits, {1}, tuttiBfloat16);
  compute.copy(from, to, false);
  compute.copy(to, from, false);
  return value;
}

TEST(Compute, CopiesBetweenFloatsAndBfloats) {
  EXPECT_EQ(AsBfloat16(1), 1);
  EXPECT_EQ(AsBfloat16(-0.15625F), -0.15625F);
  EXPECT_EQ(AsBfloat16(1 + 1.0F / 256), 1);                 // a tie: to even
  EXPECT_EQ(AsBfloat16(1 + 3.0F / 256), 1 + 4.0F / 256);    // the other way
  EXPECT_EQ(AsBfloat16(1 + 1.001F / 256), 1 + 2.0F / 256);  // more than half
  EXPECT_TRUE(std::isnan(AsBfloat16(std::nanf(""))));
  EXPECT_EQ(AsBfloat16(INFINITY), INFINITY);
  HostCompute compute;
  std::vector<float> some{1, 2, 3}, sum{10, 20, 30};
  compute.copy(Tensor(some.data(), {3}), Tensor(sum.data(), {3}), true);
  EXPECT_EQ(sum, (std::vector<float>{11, 22, 33}));
  EXPECT_TRUE(Throws([&] { compute.copy(Tensor(some.data(), {3}), Tensor(sum.data(), {2}), false); },
                     tuttiInvalidArgument, {"3", "2"}));
  EXPECT_TRUE(Throws([&] { compute.copy(Tensor(some.data(), {3}, tuttiInt32), Tensor(sum.data(), {3}), false); },
                     tuttiInvalidArgument, {"int32", "float32"}));
}

// Steps too small for bfloat16 add up in the master copy, which is the shard; parameters are its rounding. Gradients
// are reduced in bfloat16 and added up over micro-batches in float32.
TEST(FullyShardedDataParallel, KeepsAMasterCopyOfBfloats) {
  for (const int ranks : {1, 3, 4}) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      HostCompute compute;
      constexpr int kMicrobatches = 2, kSteps = 12;
      constexpr float kStep = 1.0F / 1024;  // bfloat16 has 1/128 above 1, and 1/256 rounds back to 1
      for (const auto stage : kStages) {
        const int shard_group = self.size() == 4 ? 2 : 0;
        MemoryAccount account;
        FullyShardedDataParallel fsdp(group, compute, UnitsOf(kAwkward, tuttiBfloat16),
                                      {.stage = stage, .shard_group_size = shard_group, .memory = &account});
        for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
          fsdp.initialize(unit, [&](std::size_t, const Tensor& values) {
            const std::vector<float> ones(values.count(), 1);
            compute.copy(Tensor(const_cast<float*>(ones.data()), {ones.size()}), values, false);
          });
        }
        for (int step = 0; step < kSteps; ++step) {
          fsdp.zero_grad();
          for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
            fsdp.set_requires_gradient_sync(microbatch + 1 == kMicrobatches);
            const auto values_are = [&](std::size_t unit, float wanted) {
              for (std::size_t i = 0; i < kAwkward[unit].size(); ++i) {
                std::vector<float> values(kAwkward[unit][i]);
                compute.copy(fsdp.data(unit, i), Tensor(values.data(), {values.size()}), false);
                for (const float each : values) EXPECT_EQ(each, AsBfloat16(wanted));
              }
            };
            const auto add = [&](std::size_t unit) {
              for (std::size_t i = 0; i < kAwkward[unit].size(); ++i) {
                std::vector<float> grads(kAwkward[unit][i], static_cast<float>(2 * self.rank()));
                compute.copy(Tensor(grads.data(), {grads.size()}), fsdp.grad(unit, i), true);
              }
            };
            const float wanted = 1 + static_cast<float>(step) * kStep;
            const bool in_two_parts = step % 2 == 1;
            for (std::size_t unit = fsdp.units(); unit-- > 0;) {
              in_two_parts ? fsdp.pre_backward_input(unit) : fsdp.pre_backward(unit);
              values_are(unit, wanted);
              if (!in_two_parts) add(unit);
              in_two_parts ? fsdp.post_backward_input(unit) : fsdp.post_backward(unit);
            }
            for (std::size_t unit = in_two_parts ? fsdp.units() : 0; unit-- > 0;) {
              fsdp.pre_backward_weight(unit);
              add(unit);
              fsdp.post_backward_weight(unit);
            }
          }
          fsdp.finish_gradients();
          for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
            const auto [data, grad] = fsdp.shard(unit);
            for (const float each : FloatsOf(grad)) EXPECT_EQ(each, kMicrobatches * (self.size() - 1));
            for (std::size_t i = 0; i < data.count(); ++i) data.floats()[i] += kStep;
          }
          fsdp.parameters_updated();
        }
        for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
          for (const float each : FloatsOf(fsdp.shard(unit).data)) EXPECT_EQ(each, 1 + kSteps * kStep);
        }
        const Sizes sizes(kAwkward, shard_group == 0 ? self.size() : shard_group,
                          shard_group == 0 ? self.rank() : self.rank() % shard_group);
        EXPECT_EQ(account.now(MemoryKind::optimizer_state), 4 * sizes.shard);
        EXPECT_EQ(account.now(MemoryKind::parameters), 2 * (stage == ZeroStage::parameters ? sizes.shard : sizes.all));
        EXPECT_EQ(account.now(MemoryKind::gradients),
                  4 * sizes.shard + (self.size() > 1 && stage >= ZeroStage::gradients ? 0 : 2 * sizes.all));
      }
      self.Meet();
    });
  }
}

}  // namespace
}  // namespace tutti::parallel
