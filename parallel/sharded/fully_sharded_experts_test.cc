// Sharding with units that not every rank has: experts, which the ranks of a group of their own share.
#include <csignal>
#include <numeric>

#include "parallel/sharded/fully_sharded_toy.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

const std::set<std::size_t> kExperts{1, 3};  // of kAwkward's units

// Ranks that have the same experts as this one, of `groups` groups of experts.
std::vector<int> OwnRanks(const Rank& self, int groups) {
  std::vector<int> ranks;
  for (int rank = self.rank() % groups; rank < self.size(); rank += groups) ranks.push_back(rank);
  return ranks;
}

std::size_t SizeOf(std::size_t unit) {
  return std::accumulate(kAwkward[unit].begin(), kAwkward[unit].end(), std::size_t{0});
}

// With all possible groups, including groups of one rank.
void ForEachGrouping(Rank& self, ProcessGroup& world, const tuttiConfig_t& config,
                     const std::function<void(ProcessGroup& own, int groups)>& call) {
  for (int groups = 1; groups <= self.size(); ++groups) {
    if (self.size() % groups != 0) continue;
    ProcessGroup own(world, "experts of one kind", OwnRanks(self, groups), config);
    call(own, groups);
  }
}

TEST(FullyShardedExperts, TrainAsPlainAveragingDoes) {
  for (const int ranks : {1, 2, 4, 6}) {
    RunRanks(ranks, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      HostCompute compute;
      ForEachGrouping(self, group, TUTTI_CONFIG_INITIALIZER, [&](ProcessGroup& own, int groups) {
        for (const auto& schedule :
             {one_forward_one_backward(2, 2), interleaved_one_forward_one_backward(2, 2, 2), zero_bubble_h1(2, 2)}) {
          for (const auto zero : kStages) {
            for (const bool hybrid : {false, true}) {
              if (hybrid && self.size() % 2 != 0) continue;
              const int own_shards = hybrid && own.size() % 2 == 0 ? own.size() / 2 : 0;
              FullyShardedToy toy(kAwkward, self.rank(), self.size(), static_cast<std::size_t>(schedule.chunks),
                                  {kExperts, groups, &own, own_shards});
              FullyShardedDataParallel fsdp(group, compute, toy.units(),
                                            {.stage = zero, .shard_group_size = hybrid ? 2 : 0});
              Initialize(fsdp, toy);
              for (int step = 0; step < 2; ++step) {
                TrainStep(fsdp, toy, schedule, 1);
                toy.ReferenceStep(schedule.microbatches);
              }
              TrainStep(fsdp, toy, schedule, 1);  // whose forward sees the last one's parameters
            }
          }
        }
      });
      self.Meet();
    });
  }
}

TEST(FullyShardedExperts, DivideByWhatTheyAreTold) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    ForEachGrouping(self, group, TUTTI_CONFIG_INITIALIZER, [&](ProcessGroup& own, int groups) {
      for (const auto zero : kStages) {
        for (const int divisor : {0, 2}) {
          auto units = UnitsOf({{10}});
          units[0].group = &own;
          FullyShardedDataParallel fsdp(group, compute, units, {.stage = zero, .gradient_divisor = divisor});
          fsdp.initialize(0, [](std::size_t, const Tensor&) {});
          fsdp.zero_grad();
          fsdp.pre_backward(0);
          std::fill_n(fsdp.grad(0, 0).floats(), 10, 4.0F);
          fsdp.post_backward(0);
          fsdp.finish_gradients();
          const auto sum = static_cast<float>(4 * self.size() / groups);
          for (const float each : FloatsOf(fsdp.shard(0).grad)) EXPECT_EQ(each, sum / (divisor == 0 ? 4.0F : 2.0F));
        }
      }
    });
    self.Meet();
  });
}

// A rank keeps and sends a share of its group's experts, and all of them where it is alone.
TEST(FullyShardedExperts, TakeAndSendWhatTheFormulasSay) {
  RunRanks(4, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.algorithm = "ring";
    const auto comm = self.Join();
    ProcessGroup world(comm);
    ProcessGroup group(world, "dp", OwnRanks(self, 1), config);
    ForEachGrouping(self, world, config, [&](ProcessGroup& own, int groups) {
      for (const auto zero : kStages) {
        CountingCompute compute;
        MemoryAccount account;
        FullyShardedToy toy(kAwkward, self.rank(), self.size(), 1, {kExperts, groups, &own});
        FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = zero, .memory = &account});
        Initialize(fsdp, toy);
        constexpr int kMicrobatches = 2;
        TrainStep(fsdp, toy, one_forward_one_backward(1, kMicrobatches), 0);  // every rank has the values already
        toy.ReferenceStep(kMicrobatches);
        const std::uint64_t group_before = group.bytes_sent(), own_before = own.bytes_sent();
        TrainStep(fsdp, toy, one_forward_one_backward(1, kMicrobatches), 0);

        std::size_t shard = 0, all = 0, alone = 0, experts = 0, two = 0, two_reduced = 0;
        struct Unit {
          std::size_t all, moved, mine;
        };
        std::vector<Unit> units;
        for (std::size_t unit = 0; unit < kAwkward.size(); ++unit) {
          const auto& sharers = kExperts.contains(unit) ? own : group;
          const FlatParameter flat({{SizeOf(unit)}}, static_cast<std::size_t>(sharers.size()));
          const std::size_t mine = flat.shard_counts()[static_cast<std::size_t>(sharers.rank())];
          units.push_back({SizeOf(unit), sharers.size() > 1 ? SizeOf(unit) : 0, sharers.size() > 1 ? mine : 0});
          all += SizeOf(unit);
          shard += mine;
          alone += SizeOf(unit) - units.back().moved;
          if (kExperts.contains(unit)) experts += SizeOf(unit);
        }
        for (std::size_t unit = 0; unit + 1 < units.size(); ++unit) {
          two = std::max(two, units[unit].moved + units[unit + 1].moved);
          two_reduced = std::max(two_reduced, units[unit].moved + units[unit + 1].moved + units[unit + 1].mine);
        }
        EXPECT_EQ(account.peak(MemoryKind::parameters), 4 * (zero == ZeroStage::parameters ? shard + two : all));
        EXPECT_EQ(account.peak(MemoryKind::gradients), 4 * (zero >= ZeroStage::gradients ? shard + two_reduced : all));
        EXPECT_EQ(account.peak(), compute.peak());
        for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
          EXPECT_EQ(fsdp.stage(unit), units[unit].moved > 0 ? zero : ZeroStage::optimizer_state);
        }
        EXPECT_EQ(alone, groups == self.size() ? experts : 0);

        const auto total = [&](std::uint64_t mine) {
          const Tensor tensor(&mine, {1}, tuttiUint64);
          world.all_reduce(tensor, tensor, tuttiSum);
          return mine;
        };
        const auto times = static_cast<std::uint64_t>((zero == ZeroStage::parameters ? 2 * kMicrobatches : 1) +
                                                      (zero >= ZeroStage::gradients ? kMicrobatches : 1));
        EXPECT_EQ(total(group.bytes_sent() - group_before), times * 4 * (all - experts) * 3);
        EXPECT_EQ(total(own.bytes_sent() - own_before),
                  times * 4 * experts * static_cast<std::uint64_t>(self.size() - groups));
      }
    });
    self.Meet();
  });
}

// One unit is of ranks 0 and 2, another of 1 and 3; the other layers are of 0 and 1, and of 2 and 3.
TEST(FullyShardedExperts, TellEverybodyWhatDiffers) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm);
    HostCompute compute;
    const int half = self.rank() / 2 * 2;
    ProcessGroup group(world, "dense", {half, half + 1}, TUTTI_CONFIG_INITIALIZER);
    ProcessGroup own(world, "expert", OwnRanks(self, 2), TUTTI_CONFIG_INITIALIZER);
    const auto refused = [&](const UnitSizes& sizes, int own_shards, tuttiResult_t code,
                             const std::vector<std::string>& words) {
      auto units = UnitsOf(sizes);
      units[1].group = &own;
      units[1].shard_group_size = own_shards;
      EXPECT_TRUE(Throws([&] { FullyShardedDataParallel(group, compute, units); }, code, words)) << self.rank();
      world.barrier();
    };
    const auto of_rank = [&](int rank, const UnitSizes& its, const UnitSizes& others) {
      return self.rank() == rank ? its : others;
    };
    refused(of_rank(2, {{4}, {5}}, {{4}, {3}}), 0, tuttiInvalidUsage,
            {"rank 0 of group \"expert\"", "\"weight0\" float32 [3] in unit \"unit1\"", "rank 1", "float32 [5]"});
    refused({{4}, {3}}, self.rank() == 3 ? 5 : 0, tuttiInvalidArgument,
            {"rank 1 of group \"dense\"", "unit \"unit1\"", "size (2)", "shard_group_size (5)"});
    refused({{4}, {3}}, self.rank() == 3 ? 1 : 0, tuttiInvalidUsage,
            {"group \"dense\"", "unit \"unit1\" of chunk 0 with shards over 2 of 2 ranks", "over 1 of 2 ranks"});
    refused(of_rank(1, {{4}, {0}}, {{4}, {3}}), 0, tuttiInvalidArgument,
            {"rank 1 of group \"dense\"", "unit1: weight0", "[0]"});
    auto alone = UnitsOf({{4}});
    alone[0].shard_group_size = 2;
    EXPECT_TRUE(Throws([&] { FullyShardedDataParallel(group, compute, alone); }, tuttiInvalidArgument,
                       {"unit \"unit0\" has a shard_group_size (2)", "no group"}));
    // Also where the unit's ranks are some of the others'.
    auto units = UnitsOf(of_rank(2, {{4}, {5}}, {{4}, {3}}));
    units[1].group = &own;
    EXPECT_TRUE(Throws([&] { FullyShardedDataParallel(world, compute, units); }, tuttiInvalidUsage,
                       {"rank 0 of group \"expert\"", "[3] in unit \"unit1\"", "rank 1", "[5]"}))
        << self.rank();
    self.Meet();
  });
}

// A rank that does not give the unit gets the error by the group that all of them are in; no rank waits for it.
TEST(FullyShardedExperts, AreGivenByAllRanksOrNone) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    ProcessGroup own(group, "expert", {0, 1}, TUTTI_CONFIG_INITIALIZER);
    HostCompute compute;
    auto units = UnitsOf({{4}, {5}});
    if (self.rank() == 0) {
      units[1].group = &own;
    } else {
      units.pop_back();
    }
    EXPECT_TRUE(Throws([&] { FullyShardedDataParallel(group, compute, units); }, tuttiInvalidUsage,
                       {"rank 0", "has 2 parameters", "rank 1 has 1"}));
    self.Meet();
  });
}

TEST(FullyShardedExperts, TellWhoDied) {
  for (const auto zero : kStages) {
    const auto body = [zero](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      ProcessGroup own(group, "expert", OwnRanks(self, 2), TUTTI_CONFIG_INITIALIZER);
      HostCompute compute;
      FullyShardedToy toy(kAwkward, self.rank(), self.size(), 1, {kExperts, 2, &own});
      FullyShardedDataParallel fsdp(group, compute, toy.units(), {.stage = zero});
      Initialize(fsdp, toy);
      TrainStep(fsdp, toy, 1);
      toy.ReferenceStep(1);
      fsdp.pre_forward(0);
      if (self.rank() == 2) std::raise(SIGKILL);
      fsdp.post_forward(0);
      EXPECT_TRUE(Throws([&] { TrainStep(fsdp, toy, 1); }, tuttiRemoteError, {"rank", "died"}));
    };
    RunRanks(4, body, {.may_die = {2}});
  }
}

}  // namespace
}  // namespace tutti::parallel
