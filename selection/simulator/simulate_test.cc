#include "selection/simulator/simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/builders/steps.h"
#include "base/error.h"
#include "selection/cost_model/test_machines.h"

namespace tutti {
namespace {

constexpr Shape kBulk{Wire::bulk, 1'000'000};

Schedule Only(int rank, int nranks, std::vector<Lane> lanes) {
  return {.collective = Collective::broadcast,
          .algorithm = tuttiAlgorithmRing,
          .rank = rank,
          .nranks = nranks,
          .blocks = 1,
          .channels = {{std::move(lanes)}}};
}

SimulationInput InputOf(const Machine& machine, const std::vector<Schedule>& ranks, std::size_t bytes, Shape shape,
                        int depth = 0) {
  return {machine, [&ranks](int rank) { return ranks[rank]; },
          UniformExtents(Collective::broadcast, machine.nranks(), 1, bytes), shape, depth};
}

double DurationOf(const Machine& machine, const std::vector<Schedule>& ranks, std::size_t bytes, Shape shape,
                  int depth = 0) {
  return Simulate(InputOf(machine, ranks, bytes, shape, depth)).duration_us;
}

// Rank 0 sends its block to rank 1.
std::vector<Schedule> OneMessage() {
  return {Only(0, 2, {{{MakeStep(0, {In(0)}, {To(1)})}}}), Only(1, 2, {{{MakeStep(0, {From(0)}, {Out(0)})}}})};
}

TEST(Simulate, AMessageOverOneLinkTakesItsBytesItsLatencyAndTheSteps) {
  Costs costs = FreeCosts();
  costs.operation_us = 5;
  costs.step_us = 0.25;
  const Machine machine = SwitchedMachine(1, 2, costs);
  // 1 MB at 100 GB/s, a step, the latency, and the reader's step.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, kBulk), 5 + 10 + 0.25 + 1 + 0.25, 0.001);
}

TEST(Simulate, AnExecutorPaysForWhatItTouches) {
  Costs costs = FreeCosts();
  costs.executor_bandwidth = {{std::numeric_limits<std::size_t>::max(), 10}};
  const Machine machine = SwitchedMachine(1, 2, costs);
  // Each step reads and writes 1 MB at 10 GB/s; the writer's bytes cross no faster than that.
  EXPECT_DOUBLE_EQ(DurationOf(machine, OneMessage(), 1'000'000, kBulk), 200 + 1 + 200);
}

TEST(Simulate, OverTheNetworkTheStepEndsBeforeTheBytesAreAcross) {
  const Machine machine = SwitchedMachine(2, 1);
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
  Costs costs = FreeCosts();
  costs.wire_efficiency = {0.5, 1, 1};
  const Machine machine = SwitchedMachine(1, 2, costs);
  const auto ranks = OneMessage();
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, {Wire::line, 1'000'000}), 20 + 1, 0.01);
  EXPECT_NEAR(Simulate(InputOf(machine, ranks, 1'000'000, {Wire::line, 1'000'000})).bytes_over[0], 2e6, 1e-3);
}

TEST(Simulate, TwoFlowsShareALink) {
  const Machine machine = SwitchedMachine(1, 3);
  const std::vector<Schedule> ranks = {Only(0, 3, {{{MakeStep(0, {In(0)}, {To(1), To(2)})}}}),
                                       Only(1, 3, {{{MakeStep(0, {From(0)}, {Out(0)})}}}),
                                       Only(2, 3, {{{MakeStep(0, {From(0)}, {Out(0)})}}})};
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, kBulk), 20 + 1, 0.01);
}

TEST(Simulate, TwoSlotsHideTheRoundTrip) {
  const Machine machine = SwitchedMachine(1, 2);
  const Shape chunks{Wire::bulk, 100'000};  // 1 us each; ten of them
  // With one slot a chunk waits for the one before to be read and for the writer to see it: 1 + 1 + 1 us each.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, chunks, 1), 9 * 3 + 2, 0.01);
  // With two, two chunks cross in that time: a round trip, but for the last two.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, chunks, 2), 4 * 3 + 3, 0.01);
  // With enough the link is always busy.
  EXPECT_NEAR(DurationOf(machine, OneMessage(), 1'000'000, chunks, 4), 10 + 1, 0.01);
}

TEST(Simulate, ChunksOverlapAlongAChain) {
  const Machine machine = SwitchedMachine(1, 4);
  std::vector<Schedule> ranks = {Only(0, 4, {{{MakeStep(0, {In(0)}, {To(1)})}}})};
  for (int rank = 1; rank < 3; ++rank) {
    ranks.push_back(Only(rank, 4, {{{MakeStep(0, {From(rank - 1)}, {Out(0), To(rank + 1)})}}}));
  }
  ranks.push_back(Only(3, 4, {{{MakeStep(0, {From(2)}, {Out(0)})}}}));
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, kBulk), 3 * (10 + 1), 0.01);
  // In ten chunks of 1 us: the first needs 3 hops of 2 us, nine more follow a microsecond apart.
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, {Wire::bulk, 100'000}), 3 * 2 + 9, 0.01);
}

TEST(Simulate, AStepWaitsForTheStepThatItIsAfter) {
  const Machine machine = SwitchedMachine(1, 2);
  std::vector<Schedule> ranks = OneMessage();
  Step sent = MakeStep(0, {In(0)}, {To(1)});
  sent.after = {{1, 0}};
  ranks[0].channels[0].lanes = {Lane{{sent}}, Lane{{MakeStep(0, {From(1)}, {Out(0)})}}};
  ranks[1].channels[0].lanes.push_back({{MakeStep(0, {In(0)}, {To(0)})}});
  EXPECT_NEAR(DurationOf(machine, ranks, 1'000'000, kBulk), 2 * (10 + 1), 0.01);
}

TEST(Simulate, SaysWhoWaitsForEver) {
  const Machine machine = SwitchedMachine(1, 2);
  const std::vector<Schedule> ranks = {
      Only(0, 2, {{{MakeStep(0, {From(1)}, {Out(0)}), MakeStep(0, {In(0)}, {To(1)})}}}),
      Only(1, 2, {{{MakeStep(0, {From(0)}, {Out(0)}), MakeStep(0, {In(0)}, {To(0)})}}})};
  try {
    DurationOf(machine, ranks, 100, kBulk);
    FAIL() << "nobody can begin";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "deadlock: rank 0, channel 0, lane 0 waits at step 0, chunk 0, for ever");
  }
}

TEST(Simulate, RefusesAReadThatNobodyServes) {
  const Machine machine = SwitchedMachine(1, 2);
  std::vector<Schedule> ranks = OneMessage();
  ranks[0].channels[0].lanes.clear();
  EXPECT_THROW(DurationOf(machine, ranks, 100, kBulk), Error);
}

// On the host, two ranks share one core; the second runs when the first has passed the core on.
TEST(Simulate, RanksOfACoreTakeTurns) {
  Costs costs = FreeCosts();
  costs.cores = 1;
  costs.step_us = 1;
  costs.yield_us = 10;
  const Machine machine = SwitchedMachine(1, 2, costs, kNoLimit);
  const std::vector<Schedule> both = {
      Only(0, 2, {{{MakeStep(0, {In(0)}, {To(1)}), MakeStep(0, {From(1)}, {Out(0)})}}}),
      Only(1, 2, {{{MakeStep(0, {In(0)}, {To(0)}), MakeStep(0, {From(0)}, {Out(0)})}}})};
  // Rank 0 sends (1), passes the core on (10); rank 1 sends and receives (2), passes it back (10); rank 0 receives (1).
  EXPECT_NEAR(DurationOf(machine, both, 100, kBulk), 1 + 10 + 2 + 10 + 1, 0.01);
  costs.cores = 2;
  // A core each: a step, the line's way, a step.
  EXPECT_NEAR(DurationOf(SwitchedMachine(1, 2, costs, kNoLimit), both, 100, kBulk), 1 + 1 + 1, 0.01);
}

TEST(Simulate, APostCrossesSharedMemoryOnceAndALinkForEachReader) {
  const SimulatedCall call{Collective::broadcast, tuttiAlgorithmDirect, 1'000'000, 1, kBulk};
  const Machine gpus = SwitchedMachine(1, 4);
  EXPECT_DOUBLE_EQ(Simulate(gpus, call).bytes_over[0], 3e6);
  Costs costs = FreeCosts();
  costs.cores = 4;
  EXPECT_DOUBLE_EQ(Simulate(SwitchedMachine(1, 4, costs), call).bytes_over[0], 1e6);
}

class RingOf : public testing::TestWithParam<int> {};

// Every rank sends 2(n-1) blocks one after the other, each a step, a crossing and a latency behind the one before; only
// the last step, which stores what it received, has nothing to send.
TEST_P(RingOf, TakesItsClosedForm) {
  const int n = GetParam();
  Costs costs = FreeCosts();
  costs.operation_us = 4;
  costs.step_us = 0.5;
  const Machine machine = SwitchedMachine(1, n, costs);
  constexpr std::size_t kBlock = 64'000;
  const double crossing = static_cast<double>(kBlock) / (kSwitchBandwidth * 1e3);
  const double expected = 4 + 2 * (n - 1) * (crossing + 0.5 + kLocalLatency) + 0.5;
  const auto result =
      Simulate(machine, {Collective::all_reduce, tuttiAlgorithmRing, kBlock * n, 1, {Wire::bulk, kBlock}});
  EXPECT_NEAR(result.duration_us, expected, 1e-3);
  for (int rank = 0; rank < n; ++rank) {
    EXPECT_DOUBLE_EQ(result.bytes_over[4 * rank], 2.0 * (n - 1) * kBlock);
    EXPECT_DOUBLE_EQ(result.bytes_over[4 * rank + 1], 2.0 * (n - 1) * kBlock);
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, RingOf, testing::Values(2, 3, 4, 8, 31, 64));

struct Kind {
  tuttiAlgorithm_t algorithm;
  Collective collective;
};
std::vector<Kind> EveryKind() {
  std::vector<Kind> kinds;
  for (int a = tuttiAlgorithmNone + 1; a < tuttiNumAlgorithms; ++a) {
    for (int c = 0; c < kScheduledCollectives; ++c) {
      const Kind kind{static_cast<tuttiAlgorithm_t>(a), static_cast<Collective>(c)};
      if (Supports(kind.algorithm, kind.collective, 6)) kinds.push_back(kind);
    }
  }
  return kinds;
}
class Kinds : public testing::TestWithParam<Kind> {};

// Bytes that all ranks' schedules write into slots, posts included.
double BytesWritten(const Machine& machine, const SimulatedCall& call) {
  double bytes = 0;
  for (int rank = 0; rank < machine.nranks(); ++rank) {
    const auto schedule = Build(call.algorithm, {call.collective, rank, machine.nranks(), call.root, call.channels,
                                                 &machine.rank_layout()})
                              .value();
    const auto extents = UniformExtents(call.collective, machine.nranks(), schedule.blocks, call.bytes);
    for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
      for (const Lane& lane : schedule.channels[c].lanes) {
        for (const Step& step : lane.steps) {
          const std::size_t length = extents.length[static_cast<std::size_t>(step.block)];
          const auto share = static_cast<double>(ShareBegin(length, c + 1, schedule.channels.size()) -
                                                 ShareBegin(length, c, schedule.channels.size()));
          for (const Operand& write : step.writes) {
            if (write.place == Place::to) bytes += share;
            if (write.place == Place::post) bytes += share * (machine.nranks() - 1);
          }
        }
      }
    }
  }
  return bytes;
}

TEST_P(Kinds, NothingIsLostBetweenScheduleAndLinks) {
  const Machine machine = SwitchedMachine(2, 3);
  SimulatedCall call{GetParam().collective, GetParam().algorithm, 1'000'003, 2, {Wire::bulk, 10'000}};
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

TEST_P(Kinds, AreFasterOnFasterLinksAndTheSameEachTime) {
  Costs costs = FreeCosts();
  costs.step_us = 0.5;
  const SimulatedCall call{GetParam().collective, GetParam().algorithm, 3'000'000, 1, {Wire::bulk, 50'000}};
  double before = std::numeric_limits<double>::infinity();
  for (const double bandwidth : {10.0, 20.0, 40.0, 80.0}) {
    const Machine machine = SwitchedMachine(1, 6, costs, bandwidth);
    const double duration = Simulate(machine, call).duration_us;
    EXPECT_LT(duration, before);
    EXPECT_EQ(duration, Simulate(machine, call).duration_us);
    before = duration;
  }
}

// Shared cores change when things happen, not what happens.
TEST_P(Kinds, EndOnSharedCores) {
  Costs costs = FreeCosts();
  costs.cores = 2;
  costs.step_us = 0.1;
  costs.yield_us = 1.1;
  const Machine machine = SwitchedMachine(1, 6, costs);
  const SimulatedCall call{GetParam().collective, GetParam().algorithm, 100'000, 1, {Wire::bulk, 8'000}};
  Costs own = costs;
  own.cores = 6;
  EXPECT_GT(Simulate(machine, call).duration_us, Simulate(SwitchedMachine(1, 6, own), call).duration_us);
}

INSTANTIATE_TEST_SUITE_P(All, Kinds, testing::ValuesIn(EveryKind()), [](const auto& info) {
  return fmt::format("{}_by_{}", NameOf(info.param.collective), NameOf(info.param.algorithm));
});

}  // namespace
}  // namespace tutti
