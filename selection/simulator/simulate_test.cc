#include "selection/simulator/simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/builders/build.h"
#include "algorithms/builders/records.h"
#include "algorithms/builders/steps.h"
#include "base/error.h"
#include "selection/cost_model/machine_constants.h"
#include "selection/cost_model/machine_of_system.h"
#include "selection/cost_model/test_machines.h"

namespace tutti::simulator {
namespace {

constexpr schedule::ProtocolConfig kBulk{ring::Protocol::bulk, 1'000'000};

schedule::Schedule Only(int rank, int nranks, std::vector<schedule::Lane> lanes) {
  return {.collective = schedule::Collective::broadcast,
          .algorithm = tuttiAlgorithmRing,
          .rank = rank,
          .nranks = nranks,
          .blocks = 1,
          .channels = {{std::move(lanes)}}};
}

SimulationInput InputOf(const cost_model::Machine& machine, const std::vector<schedule::Schedule>& ranks,
                        std::size_t bytes, schedule::ProtocolConfig config, int depth = 0) {
  return {machine, [&ranks](int rank) { return ranks[rank]; },
          schedule::UniformExtents(schedule::Collective::broadcast, machine.nranks(), 1, bytes), config, depth};
}

double DurationOf(const cost_model::Machine& machine, const std::vector<schedule::Schedule>& ranks, std::size_t bytes,
                  schedule::ProtocolConfig config, int depth = 0) {
  return Simulate(InputOf(machine, ranks, bytes, config, depth)).duration_us;
}

// Rank 0 sends its block to rank 1.
std::vector<schedule::Schedule> OneMessage() {
  return {Only(0, 2, {{{builders::MakeStep(0, {schedule::In(0)}, {schedule::To(1)})}}}),
          Only(1, 2, {{{builders::MakeStep(0, {schedule::From(0)}, {schedule::Out(0)})}}})};
}

TEST(Simulate, AMessageOverOneLinkTakesItsBytesItsLatencyAndTheSteps) {
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.operation_us = 5;
  costs.step_us = 0.25;
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2, costs);
  // 1 MB at 100 GB/s, a step, the latency, and the reader's step.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, kBulk), 5 + 10 + 0.25 + 1 + 0.25, 0.001);
}

// Two channels of a rank, half of the bytes each.
TEST(Simulate, HelperThreadsMoveChannelsAtTheSameTime) {
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.executor_bandwidth = {{std::numeric_limits<std::size_t>::max(), 10}};
  costs.helpers_us = 30;
  const auto duration = [&](int cores, int channels) {
    costs.cores = cores;
    const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2, costs);
    SimulatedCall call{schedule::Collective::all_gather, tuttiAlgorithmDirect, 1'000'000, channels, kBulk};
    return Simulate(machine, call).duration_us;
  };
  EXPECT_NEAR(duration(4, 2), 30 + duration(4, 1) / 2, 2);
  EXPECT_NEAR(duration(2, 2), duration(2, 1), 2) << "the ranks leave no core idle";
}

TEST(Simulate, AnExecutorPaysForWhatItTouches) {
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.executor_bandwidth = {{std::numeric_limits<std::size_t>::max(), 10}};
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2, costs);
  // Each step reads and writes 1 MB at 10 GB/s; the writer's bytes cross no faster than that.
  EXPECT_DOUBLE_EQ(DurationOf(machine, OneMessage(), 1'000'000, kBulk), 200 + 1 + 200);
}

// Every operand passes a memory that all ranks share, at the pace that the schedule's blocks get from it.
TEST(Simulate, RanksOfOneGpuShareItsMemory) {
  constexpr double kGBps = 3352;
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  for (const int nranks : {2, 8}) {
    const cost_model::Machine machine = cost_model::MachineOfOneGpu(nranks, 90, kGBps, {256});
    for (const auto algorithm : {tuttiAlgorithmPeerMemory, tuttiAlgorithmRing}) {
      const auto schedule_of = [&](int rank) {
        return *builders::Build(algorithm, {schedule::Collective::all_gather, rank, nranks, 0, 32});
      };
      const auto result = Simulate({machine,
                                    schedule_of,
                                    schedule::UniformExtents(schedule::Collective::all_gather, nranks, nranks, kBytes),
                                    {ring::Protocol::bulk, 1 << 20},
                                    0});
      // Each block is read once by peer memory, and by every rank of a ring; each output is written once.
      const bool peer_memory = algorithm == tuttiAlgorithmPeerMemory;
      const double bytes = static_cast<double>(kBytes) * nranks * (nranks + (peer_memory ? 1 : nranks));
      const double share = peer_memory ? cost_model::kGpuMemoryInTurn : cost_model::kGpuMemoryApart;
      EXPECT_NEAR(result.duration_us / (bytes / (share * kGBps * 1e3)), 1, 0.1)
          << builders::NameOf(algorithm) << nranks;
    }
  }
}

TEST(Simulate, OverTheNetworkTheStepEndsBeforeTheBytesAreAcross) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(2, 1);
  Timeline timeline;
  const auto ranks = OneMessage();
  auto input = InputOf(machine, ranks, 1'000'000, kBulk);
  input.timeline = &timeline;
  EXPECT_NEAR(Simulate(input).duration_us, 50 + 3, 0.01);
  ASSERT_EQ(timeline.steps.size(), 2u);
  EXPECT_LT(timeline.steps[0].end, 0.01);
  ASSERT_EQ(timeline.flows.size(), 1u);
  EXPECT_NEAR(timeline.flows[0].end, 50, 0.01);
}

TEST(Simulate, FlagsTakeTheirPartOfALink) {
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.protocol_efficiency = {0.5, 1, 1};
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2, costs);
  const auto ranks = OneMessage();
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, {ring::Protocol::line, 1'000'000}), 20 + 1, 0.01);
  EXPECT_NEAR(Simulate(InputOf(machine, ranks, 1'000'000, {ring::Protocol::line, 1'000'000})).bytes_over[0], 2e6, 1e-3);
}

TEST(Simulate, TwoFlowsShareALink) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 3);
  const std::vector<schedule::Schedule> ranks = {
      Only(0, 3, {{{builders::MakeStep(0, {schedule::In(0)}, {schedule::To(1), schedule::To(2)})}}}),
      Only(1, 3, {{{builders::MakeStep(0, {schedule::From(0)}, {schedule::Out(0)})}}}),
      Only(2, 3, {{{builders::MakeStep(0, {schedule::From(0)}, {schedule::Out(0)})}}})};
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, kBulk), 20 + 1, 0.01);
}

TEST(Simulate, TwoSlotsHideTheRoundTrip) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2);
  const schedule::ProtocolConfig chunks{ring::Protocol::bulk, 100'000};  // 1 us each; ten of them
  // With one slot a chunk waits for the one before to be read and for the writer to see it: 1 + 1 + 1 us each.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, chunks, 1), 9 * 3 + 2, 0.01);
  // With two, two chunks cross in that time: a round trip, but for the last two.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, chunks, 2), 4 * 3 + 3, 0.01);
  // With enough the link is always busy.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, chunks, 4), 10 + 1, 0.01);
}

TEST(Simulate, ChunksOverlapAlongAChain) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 4);
  std::vector<schedule::Schedule> ranks = {
      Only(0, 4, {{{builders::MakeStep(0, {schedule::In(0)}, {schedule::To(1)})}}})};
  for (int rank = 1; rank < 3; ++rank) {
    ranks.push_back(Only(
        rank, 4, {{{builders::MakeStep(0, {schedule::From(rank - 1)}, {schedule::Out(0), schedule::To(rank + 1)})}}}));
  }
  ranks.push_back(Only(3, 4, {{{builders::MakeStep(0, {schedule::From(2)}, {schedule::Out(0)})}}}));
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, kBulk), 3 * (10 + 1), 0.01);
  // In ten chunks of 1 us: the first needs 3 hops of 2 us, nine more follow a microsecond apart.
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, {ring::Protocol::bulk, 100'000}), 3 * 2 + 9, 0.01);
}

TEST(Simulate, AStepWaitsForTheStepThatItIsAfter) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2);
  std::vector<schedule::Schedule> ranks = OneMessage();
  schedule::Step sent = builders::MakeStep(0, {schedule::In(0)}, {schedule::To(1)});
  sent.after = {{1, 0}};
  ranks[0].channels[0].lanes = {schedule::Lane{{sent}},
                                schedule::Lane{{builders::MakeStep(0, {schedule::From(1)}, {schedule::Out(0)})}}};
  ranks[1].channels[0].lanes.push_back({{builders::MakeStep(0, {schedule::In(0)}, {schedule::To(0)})}});
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, kBulk), 2 * (10 + 1), 0.01);
}

TEST(Simulate, SaysWhoWaitsForEver) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2);
  const std::vector<schedule::Schedule> ranks = {
      Only(0, 2,
           {{{builders::MakeStep(0, {schedule::From(1)}, {schedule::Out(0)}),
              builders::MakeStep(0, {schedule::In(0)}, {schedule::To(1)})}}}),
      Only(1, 2,
           {{{builders::MakeStep(0, {schedule::From(0)}, {schedule::Out(0)}),
              builders::MakeStep(0, {schedule::In(0)}, {schedule::To(0)})}}})};
  try {
    DurationOf(machine, ranks, 100, kBulk);
    FAIL() << "nobody can begin";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "deadlock: rank 0, channel 0, lane 0 waits forever at step 0, chunk 0");
  }
}

TEST(Simulate, RefusesAReadThatNobodyServes) {
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2);
  std::vector<schedule::Schedule> ranks = OneMessage();
  ranks[0].channels[0].lanes.clear();
  EXPECT_THROW(DurationOf(machine, ranks, 100, kBulk), Error);
}

// On the host, two ranks share one core; the second runs when the first has passed the core on.
TEST(Simulate, RanksOfACoreTakeTurns) {
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.cores = 1;
  costs.step_us = 1;
  costs.yield_us = 10;
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 2, costs, cost_model::kNoLimit);
  const std::vector<schedule::Schedule> both = {
      Only(0, 2,
           {{{builders::MakeStep(0, {schedule::In(0)}, {schedule::To(1)}),
              builders::MakeStep(0, {schedule::From(1)}, {schedule::Out(0)})}}}),
      Only(1, 2,
           {{{builders::MakeStep(0, {schedule::In(0)}, {schedule::To(0)}),
              builders::MakeStep(0, {schedule::From(0)}, {schedule::Out(0)})}}})};
  // Rank 0 sends (1), passes the core on (10); rank 1 sends and receives (2), passes it back (10); rank 0 receives (1).
  EXPECT_NEAR(DurationOf(machine, both, 100, kBulk), 1 + 10 + 2 + 10 + 1, 0.01);
  costs.cores = 2;
  // A core each: a step, the line's way, a step.
  EXPECT_NEAR(DurationOf(cost_model::SwitchedMachine(1, 2, costs, cost_model::kNoLimit), both, 100, kBulk), 1 + 1 + 1,
              0.01);
}

TEST(Simulate, APostCrossesSharedMemoryOnceAndALinkForEachReader) {
  const SimulatedCall call{schedule::Collective::broadcast, tuttiAlgorithmDirect, 1'000'000, 1, kBulk};
  const cost_model::Machine gpus = cost_model::SwitchedMachine(1, 4);
  EXPECT_DOUBLE_EQ(Simulate(gpus, call).bytes_over[0], 3e6);
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.cores = 4;
  EXPECT_DOUBLE_EQ(Simulate(cost_model::SwitchedMachine(1, 4, costs), call).bytes_over[0], 1e6);
}

class RingOf : public ::testing::TestWithParam<int> {};

// Every rank sends 2(n-1) blocks one after the other, each a step, a crossing and a latency behind the one before; only
// the last step, which stores what it received, has nothing to send.
TEST_P(RingOf, TakesItsClosedForm) {
  const int n = GetParam();
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.operation_us = 4;
  costs.step_us = 0.5;
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, n, costs);
  constexpr std::size_t kBlock = 64'000;
  const double crossing = static_cast<double>(kBlock) / (cost_model::kSwitchBandwidth * 1e3);
  const double expected = 4 + 2 * (n - 1) * (crossing + 0.5 + cost_model::kLocalLatency) + 0.5;
  const auto result = Simulate(
      machine, {schedule::Collective::all_reduce, tuttiAlgorithmRing, kBlock * n, 1, {ring::Protocol::bulk, kBlock}});
  EXPECT_NEAR(result.duration_us, expected, 1e-3);
  for (int rank = 0; rank < n; ++rank) {
    EXPECT_DOUBLE_EQ(result.bytes_over[4 * rank], 2.0 * (n - 1) * kBlock);
    EXPECT_DOUBLE_EQ(result.bytes_over[4 * rank + 1], 2.0 * (n - 1) * kBlock);
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, RingOf, ::testing::Values(2, 3, 4, 8, 31, 64));

struct Kind {
  tuttiAlgorithm_t algorithm;
  schedule::Collective collective;
};
std::vector<Kind> EveryKind() {
  std::vector<Kind> kinds;
  for (int a = tuttiAlgorithmNone + 1; a < tuttiNumAlgorithms; ++a) {
    for (int c = 0; c < schedule::kScheduledCollectives; ++c) {
      const Kind kind{static_cast<tuttiAlgorithm_t>(a), static_cast<schedule::Collective>(c)};
      if (builders::Supports(kind.algorithm, kind.collective, 6)) kinds.push_back(kind);
    }
  }
  return kinds;
}
class Kinds : public ::testing::TestWithParam<Kind> {};

// Bytes that all ranks' schedules write into slots, posts included.
double BytesWritten(const cost_model::Machine& machine, const SimulatedCall& call) {
  double bytes = 0;
  for (int rank = 0; rank < machine.nranks(); ++rank) {
    const auto schedule = builders::Build(call.algorithm, {call.collective, rank, machine.nranks(), call.root,
                                                           call.channels, &machine.rank_layout()})
                              .value();
    const auto extents = schedule::UniformExtents(call.collective, machine.nranks(), schedule.blocks, call.bytes);
    for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
      for (const schedule::Lane& lane : schedule.channels[c].lanes) {
        for (const schedule::Step& step : lane.steps) {
          const std::size_t length = extents.length[static_cast<std::size_t>(step.block)];
          const auto share = static_cast<double>(schedule::ShareBegin(length, c + 1, schedule.channels.size()) -
                                                 schedule::ShareBegin(length, c, schedule.channels.size()));
          for (const schedule::Operand& write : step.writes) {
            if (write.kind == schedule::OperandKind::to) bytes += share;
            if (write.kind == schedule::OperandKind::post) bytes += share * (machine.nranks() - 1);
          }
        }
      }
    }
  }
  return bytes;
}

TEST_P(Kinds, NothingIsLostBetweenScheduleAndLinks) {
  if (GetParam().algorithm == tuttiAlgorithmNvls) GTEST_SKIP() << "a switch takes and gives different numbers of bytes";
  const cost_model::Machine machine = cost_model::SwitchedMachine(2, 3);
  SimulatedCall call{GetParam().collective, GetParam().algorithm, 1'000'003, 2, {ring::Protocol::bulk, 10'000}};
  const auto result = Simulate(machine, call);
  double out = 0;
  double in = 0;
  for (int i = 0; i < machine.resources(); i += 2) {
    out += result.bytes_over[i];
    in += result.bytes_over[i + 1];
    EXPECT_LE(result.Utilisation(machine, i), 1 + 1e-6);
  }
  EXPECT_NEAR(out, BytesWritten(machine, call), 1e-3);
  EXPECT_NEAR(in, out, 1e-3);
}

// Every rank sends its share of every sum and, once, each result that it multicasts; the switch adds and multiplies.
TEST(Simulate, ASwitchAddsAndMultiplies) {
  constexpr int kRanks = 6;
  constexpr double kBytes = 6'000'000;
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, kRanks);
  struct Load {
    schedule::Collective collective;
    double out, in;  // of every rank, in buffers
  };
  for (const auto& [collective, out, in] : {Load{schedule::Collective::all_reduce, 1 + 1.0 / kRanks, 1 + 1.0 / kRanks},
                                            Load{schedule::Collective::reduce_scatter, 1, 1.0 / kRanks},
                                            Load{schedule::Collective::all_gather, 1.0 / kRanks, 1}}) {
    const bool whole = collective == schedule::Collective::all_reduce;
    const SimulatedCall call{collective,
                             tuttiAlgorithmNvls,
                             static_cast<std::size_t>(whole ? kBytes : kBytes / kRanks),
                             2,
                             {ring::Protocol::bulk, 50'000}};
    const auto result = Simulate(machine, call);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_NEAR(result.bytes_over[4 * rank], out * kBytes, 1) << schedule::NameOf(collective);
      EXPECT_NEAR(result.bytes_over[4 * rank + 1], in * kBytes, 1) << schedule::NameOf(collective);
    }
    const double least = std::max(out, in) * kBytes * cost_model::UsPerByte(cost_model::kSwitchBandwidth);
    EXPECT_GE(result.duration_us, least);
    EXPECT_LE(result.duration_us, 1.4 * least);  // the pipeline fills and drains
  }
}

TEST_P(Kinds, AreFasterOnFasterLinksAndTheSameEachTime) {
  if (GetParam().algorithm == tuttiAlgorithmPeerMemory) GTEST_SKIP() << "it crosses no link";
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.step_us = 0.5;
  const SimulatedCall call{GetParam().collective, GetParam().algorithm, 3'000'000, 1, {ring::Protocol::bulk, 50'000}};
  double before = std::numeric_limits<double>::infinity();
  for (const double bandwidth : {10.0, 20.0, 40.0, 80.0}) {
    const cost_model::Machine machine = cost_model::SwitchedMachine(1, 6, costs, bandwidth);
    const double duration = Simulate(machine, call).duration_us;
    EXPECT_LT(duration, before);
    EXPECT_EQ(duration, Simulate(machine, call).duration_us);
    before = duration;
  }
}

// Shared cores change when things happen, not what happens.
TEST_P(Kinds, EndOnSharedCores) {
  cost_model::Costs costs = cost_model::FreeCosts();
  costs.cores = 2;
  costs.step_us = 0.1;
  costs.yield_us = 1.1;
  const cost_model::Machine machine = cost_model::SwitchedMachine(1, 6, costs);
  const SimulatedCall call{GetParam().collective, GetParam().algorithm, 100'000, 1, {ring::Protocol::bulk, 8'000}};
  cost_model::Costs own = costs;
  own.cores = 6;
  EXPECT_GT(Simulate(machine, call).duration_us, Simulate(cost_model::SwitchedMachine(1, 6, own), call).duration_us);
}

INSTANTIATE_TEST_SUITE_P(All, Kinds, ::testing::ValuesIn(EveryKind()), [](const auto& info) {
  return fmt::format("{}_by_{}", schedule::NameOf(info.param.collective), builders::NameOf(info.param.algorithm));
});

}  // namespace
}  // namespace tutti::simulator
