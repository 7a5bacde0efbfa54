#include "algorithms/builders/build.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "algorithms/builders/records.h"
#include "algorithms/builders/steps.h"
#include "algorithms/schedule/binding.h"

namespace tutti::builders {
namespace {

TEST(Build, NamesAreUniqueAndComeBack) {
  std::set<std::string_view> names;
  for (const auto algorithm : kAllAlgorithms) {
    EXPECT_TRUE(names.insert(NameOf(algorithm)).second);
    EXPECT_EQ(AlgorithmFromName(NameOf(algorithm)), algorithm);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(tuttiNumAlgorithms - 1));
  for (const auto* wrong : {"", "none", "Ring", "ring ", "unknown"}) EXPECT_EQ(AlgorithmFromName(wrong), std::nullopt);
  EXPECT_EQ(NameOf(static_cast<tuttiAlgorithm_t>(tuttiNumAlgorithms)), "unknown");
}

TEST(Build, EveryCollectiveHasAFormAtEverySize) {
  for (int c = 0; c < kScheduledCollectives; ++c) {
    for (const int n : {1, 2, 3, 64, 65, 1000}) {
      bool any = false;
      for (const auto algorithm : kAllAlgorithms) any = any || Supports(algorithm, static_cast<Collective>(c), n);
      EXPECT_TRUE(any) << NameOf(static_cast<Collective>(c)) << " on " << n;
    }
  }
}

TEST(Build, BuildsExactlyWhatItSupportsAndSaysWhatItBuilt) {
  for (const auto algorithm : kAllAlgorithms) {
    for (int c = 0; c < kScheduledCollectives; ++c) {
      for (const int n : {1, 2, 5, 64, 65}) {
        const ScheduleRequest request{static_cast<Collective>(c), n / 2, n, n - 1, 2};
        const auto schedule = Build(algorithm, request);
        ASSERT_EQ(schedule.has_value(), Supports(algorithm, request.collective, n));
        if (!schedule) continue;
        EXPECT_EQ(schedule->algorithm, algorithm);
        EXPECT_EQ(schedule->collective, request.collective);
        EXPECT_EQ(schedule->rank, n / 2);
        EXPECT_EQ(schedule->nranks, n);
        EXPECT_EQ(schedule->root, n - 1);
        EXPECT_EQ(schedule->channels.size() % 2, 0u);
      }
    }
  }
  EXPECT_EQ(Build(tuttiAlgorithmNone, {Collective::all_reduce, 0, 2}), std::nullopt);
  EXPECT_FALSE(Supports(static_cast<tuttiAlgorithm_t>(-1), Collective::all_reduce, 2));
  EXPECT_FALSE(Supports(tuttiNumAlgorithms, Collective::all_reduce, 2));
}

TEST(Build, SaysWhatIsOnlyToCompareWith) {
  EXPECT_TRUE(RecordOf(tuttiAlgorithmParameterServer).baseline);
  EXPECT_TRUE(RecordOf(tuttiAlgorithmAllToAllBroadcast).baseline);
  EXPECT_FALSE(RecordOf(tuttiAlgorithmTwoLevel).baseline);
}

// No step exceeds the limits that executors must support, at any size.
// A GPU runs each lane in a thread block, so it could not run a lane for each of a thousand ranks.
TEST(Build, AnAllToAllHasAsManyLanesForTwoRanksAsForThousands) {
  for (const int nranks : {2, 1025, 5000}) {
    const auto schedule = Build(tuttiAlgorithmDirect, {Collective::all_to_all, nranks - 1, nranks});
    ASSERT_TRUE(schedule) << nranks;
    EXPECT_EQ(LanesOf(*schedule), 2U) << nranks;
    const auto& received = schedule->channels[0].lanes[1].steps;
    ASSERT_EQ(received.size(), static_cast<std::size_t>(nranks - 1));
    EXPECT_EQ(received.back().block, nranks + nranks - 2) << "of the rank before this one, the last to receive from";
  }
}

TEST(Build, StepsKeepToTheLimits) {
  for (const auto algorithm : kAllAlgorithms) {
    for (int c = 0; c < kScheduledCollectives; ++c) {
      for (const int n : {2, 64, 300}) {
        const auto schedule = Build(algorithm, {static_cast<Collective>(c), 0, n});
        if (!schedule) continue;
        for (const auto& lane : schedule->channels.front().lanes) {
          for (const auto& step : lane.steps) {
            EXPECT_LE(step.reads.size(), static_cast<std::size_t>(kMaxReads))
                << ToString(*schedule, NameOf(schedule->algorithm));
            EXPECT_LE(step.writes.size(), static_cast<std::size_t>(MostWrites(*schedule)))
                << ToString(*schedule, NameOf(schedule->algorithm));
          }
        }
      }
    }
  }
}

TEST(Schedule, IsSpeltAsInItsDescription) {
  EXPECT_EQ(ToString(MakeStep(0, {In(2)}, {To(3)})), "{in[2]} -> {to(3)}");
  EXPECT_EQ(ToString(MakeStep(0, {In(0), From(1)}, {Out(0), Post(0)})), "{in[0], from(1)} -> {out[0], post}");
  Step step = Finally(MakeStep(0, {Scaled(0), Post(1), Scratch(2)}, {Out(0)}));
  step.after = {{0, 1}};
  EXPECT_EQ(ToString(step), "{scaled in[0], post(1), scratch[2]} -> {out[0]} final after(0, 1)");
}

TEST(Schedule, IsPrintedOneStepALine) {
  const auto schedule = Build(tuttiAlgorithmRing, {Collective::all_reduce, 0, 2});
  EXPECT_EQ(ToString(*schedule, NameOf(schedule->algorithm)),
            "all_reduce by ring, rank 0 of 2, 2 blocks\n"
            "channel 0\n"
            "  lane 0\n"
            "    0: block 1: {scaled in[1]} -> {to(1)}\n"
            "    1: block 0: {from(1), scaled in[0]} -> {out[0], to(1)} final\n"
            "    2: block 1: {from(1)} -> {out[1]}\n");
}

}  // namespace
}  // namespace tutti::builders
