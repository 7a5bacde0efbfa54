// Proves every schedule that can be built, at the slot counts that connections have.
#include "algorithms/verifier/verify.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/builders/build.h"
#include "algorithms/builders/records.h"
#include "algorithms/schedule/one_lane.h"
#include "algorithms/verifier/verify_testing.h"
#include "testing/surroundings.h"

namespace tutti::verifier {
namespace {

constexpr int kMaxRanks = 64;
constexpr int kFewRanks = 9;  // up to here all parameters are combined

struct Depths {
  int slots;
  int posts;
};
// Line, inline and bulk connections (transports/ring/slot.h), and the fewest with which a connection can stream.
constexpr std::array kDepths = {Depths{2, 2}, Depths{4, 4}, Depths{8, 8}, Depths{64, 64}};
constexpr int kChunk = 2;
constexpr int kOperations = 3;

// The length of block b of `blocks`, in units; a chunk has two.
using Pattern = int (*)(int block, int blocks);
constexpr Pattern kNothing = [](int, int) { return 0; };
constexpr Pattern kOneUnit = [](int, int) { return 1; };
constexpr Pattern kTwoChunks = [](int, int) { return 4; };
constexpr Pattern kLastShorter = [](int b, int blocks) { return b + 1 < blocks ? 4 : 1; };
constexpr Pattern kMoreBlocksThanUnits = [](int b, int blocks) { return 2 * b < blocks ? 1 : 0; };
constexpr Pattern kUneven = [](int b, int) { return b * 3 % 7; };
constexpr Pattern kFirstOnly = [](int b, int) { return b == 0 ? 5 : 0; };

struct Kind {
  tuttiAlgorithm_t algorithm;
  Collective collective;
  const NodeLayout* layout = nullptr;  // null: no rank layout
  bool posts = true;
};

std::vector<Schedule> BuildAll(const Kind& kind, int n, int root, int channels) {
  const RankLayout where = kind.layout == nullptr ? RankLayout{} : kind.layout->arrange(n);
  return BuildEverywhere(
      kind.algorithm, {kind.collective, 0, n, root, channels, kind.layout == nullptr ? nullptr : &where, kind.posts});
}

std::vector<int> Lengths(const Schedule& schedule, Pattern pattern) {
  const int n = schedule.collective == Collective::all_to_all ? schedule.nranks * schedule.nranks : schedule.blocks;
  std::vector<int> lengths;
  for (int b = 0; b < n; ++b) lengths.push_back(pattern(b, n));
  return lengths;
}

bool IsUniform(Pattern pattern) { return pattern == kNothing || pattern == kOneUnit || pattern == kTwoChunks; }

bool ClaimsReferences(const Schedule& schedule, bool in_place) {
  return in_place ? schedule.reference_safe_in_place : schedule.reference_safe;
}

// "all_reduce_by_ring", "broadcast_by_two_level_on_nodes_of_four".
std::string NameOfKind(const ::testing::TestParamInfo<Kind>& info) {
  const auto& [algorithm, collective, layout, posts] = info.param;
  std::string name = std::string(NameOf(collective)) + "_by_" + std::string(builders::NameOf(algorithm));
  if (!posts) name += "_without_posts";
  return layout == nullptr ? name : name + "_on_" + layout->name;
}

bool PassesBlocksOn(const Kind& kind) {
  return Has(builders::RecordOf(kind.algorithm).passes_blocks_on, kind.collective);
}

bool PostsWhereItCan(tuttiAlgorithm_t algorithm) {
  return algorithm == tuttiAlgorithmDirect || algorithm == tuttiAlgorithmTwoShot;
}

std::vector<Kind> EveryKind() {
  std::vector<Kind> kinds;
  for (int a = 0; a < tuttiNumAlgorithms; ++a) {
    for (int c = 0; c < kScheduledCollectives; ++c) {
      const Kind kind{static_cast<tuttiAlgorithm_t>(a), static_cast<Collective>(c)};
      if (!builders::Supports(kind.algorithm, kind.collective, kMaxRanks)) continue;
      kinds.push_back(kind);
      if (PostsWhereItCan(kind.algorithm)) kinds.push_back({kind.algorithm, kind.collective, nullptr, false});
      for (const NodeLayout& layout : kNodeLayouts) {
        if (builders::RecordOf(kind.algorithm).arranges(kind.collective))
          kinds.push_back({kind.algorithm, kind.collective, &layout});
      }
    }
  }
  return kinds;
}

class Verified : public ::testing::TestWithParam<Kind> {
 protected:
  std::vector<int> Roots(int n) const {
    if (!HasRoot(GetParam().collective) || n == 1) return {0};
    return n == 2 ? std::vector<int>{0, 1} : std::vector<int>{0, n / 2, n - 1};
  }
};

INSTANTIATE_TEST_SUITE_P(Schedules, Verified, ::testing::ValuesIn(testing::Grid(EveryKind())), NameOfKind);

// All combinations, on a few ranks.
TEST_P(Verified, OnFewRanksInEveryWay) {
  const bool all_to_all = GetParam().collective == Collective::all_to_all;
  for (int n = 1; n <= kFewRanks; ++n) {
    for (const int root : Roots(n)) {
      const auto ranks = BuildAll(GetParam(), n, root, 2);
      for (const Pattern pattern :
           {kNothing, kOneUnit, kTwoChunks, kLastShorter, kMoreBlocksThanUnits, kUneven, kFirstOnly}) {
        if (PassesBlocksOn(GetParam()) && !IsUniform(pattern)) continue;
        for (const bool in_place : {false, true}) {
          if (all_to_all && in_place && !IsUniform(pattern)) continue;
          for (const bool by_reference : {false, true}) {
            if (by_reference && !ClaimsReferences(ranks.front(), in_place)) continue;
            for (const auto [slots, posts] : kDepths) {
              VerifyOptions options{.lengths = {Lengths(ranks.front(), pattern), Lengths(ranks.front(), kOneUnit)},
                                    .chunk = kChunk,
                                    .slot_depth = slots,
                                    .post_depth = posts,
                                    .in_place = in_place,
                                    .by_reference = by_reference,
                                    .operations = kOperations};
              ASSERT_EQ(Verify(ranks, options), std::nullopt) << n << " ranks, root " << root;
              if (!all_to_all || in_place || PassesBlocksOn(GetParam())) continue;
              options.pairwise = true;
              ASSERT_EQ(Verify(ranks, options), std::nullopt) << n << " ranks, pairwise";
            }
          }
        }
      }
    }
  }
}

// Where no step runs more than once, executors may run each channel's steps in one lane, if the schedule says so.
TEST_P(Verified, InOneLane) {
  if (!BuildAll(GetParam(), 2, 0, 1).front().one_lane_safe) GTEST_SKIP() << "the schedule does not claim it";
  const bool all_to_all = GetParam().collective == Collective::all_to_all;
  for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, kMaxRanks}) {
    for (const int root : Roots(n)) {
      auto ranks = BuildAll(GetParam(), n, root, 1);
      for (auto& rank : ranks) {
        for (auto& channel : rank.channels) channel = {{InOneLane(channel)}};
      }
      for (const Pattern pattern : {kNothing, kOneUnit, kMoreBlocksThanUnits}) {
        if (PassesBlocksOn(GetParam()) && !IsUniform(pattern)) continue;
        for (const bool in_place : {false, true}) {
          if (all_to_all && in_place && !IsUniform(pattern)) continue;
          const auto [slots, posts] = kDepths[(n + in_place) % kDepths.size()];
          VerifyOptions options{.lengths = {Lengths(ranks.front(), pattern)},
                                .chunk = kChunk,
                                .slot_depth = slots,
                                .post_depth = posts,
                                .in_place = in_place,
                                .operations = n <= kFewRanks ? kOperations : 1};
          ASSERT_EQ(Verify(ranks, options), std::nullopt) << n << " ranks, root " << root;
          if (!all_to_all || in_place || PassesBlocksOn(GetParam())) continue;
          options.pairwise = true;
          ASSERT_EQ(Verify(ranks, options), std::nullopt) << n << " ranks, pairwise";
        }
      }
    }
  }
}

// On every number of ranks, the hardest case: two chunks, the last block shorter, by reference where that is claimed.
TEST_P(Verified, OnAllNumbersOfRanks) {
  for (int n = kFewRanks + 1; n <= kMaxRanks; ++n) {
    const bool edge = n == 16 || n == 17 || n == 31 || n >= kMaxRanks - 1;
    if (!kEveryRankCount && !edge) continue;
    // The layouts share the numbers of ranks among them.
    const NodeLayout* const layout = GetParam().layout;
    if (layout != nullptr && n < kMaxRanks && n % std::ssize(kNodeLayouts) != layout - kNodeLayouts.data()) continue;
    const auto roots = Roots(n);
    const auto ranks = BuildAll(GetParam(), n, roots[n % roots.size()], 1);
    for (const bool in_place : {false, true}) {
      const bool uniform = GetParam().collective == Collective::all_to_all && (in_place || PassesBlocksOn(GetParam()));
      const auto [slots, posts] = kDepths[(n + in_place) % kDepths.size()];
      const VerifyOptions options{.lengths = {Lengths(ranks.front(), uniform ? kTwoChunks : kLastShorter)},
                                  .chunk = kChunk,
                                  .slot_depth = slots,
                                  .post_depth = posts,
                                  .in_place = in_place,
                                  .by_reference = ClaimsReferences(ranks.front(), in_place),
                                  .operations = edge ? kOperations : 2};
      ASSERT_EQ(Verify(ranks, options), std::nullopt) << n << " ranks";
    }
  }
}

// A schedule that does not claim to be reference-safe is unsafe on some number of ranks: no safe one fails to claim it.
TEST_P(Verified, ClaimsReferencesExactlyWhereTheyAreSafe) {
  for (const bool in_place : {false, true}) {
    bool claimed = true;
    bool safe = true;
    for (int n = 2; n <= kFewRanks; ++n) {
      const auto ranks = BuildAll(GetParam(), n, n / 2, 1);
      claimed = claimed && ClaimsReferences(ranks.front(), in_place);
      safe = safe && Verify(ranks, {.in_place = in_place, .by_reference = true}) == std::nullopt;
    }
    EXPECT_EQ(claimed, safe) << (in_place ? "in place" : "out of place");
  }
}

TEST_P(Verified, IsDeterministicWhereOneStepReducesInRankOrder) {
  const auto [algorithm, collective, layout, posts] = GetParam();
  const auto& record = builders::RecordOf(algorithm);
  const bool one_step = record.rounding == builders::Rounding::in_rank_order || record.baseline;
  for (const int n : {4, 7, 16}) {
    EXPECT_EQ(IsDeterministic(BuildAll(GetParam(), n, n / 2, 2)), one_step || !IsReducing(collective)) << n;
  }
  EXPECT_TRUE(IsDeterministic(BuildAll(GetParam(), 1, 0, 1)));
}

// More ranks than a step can read or write at once.
TEST(Verify, SumsInSeveralStepsWhereOneIsNotEnough) {
  using enum Collective;
  constexpr int kManyRanks = 2 * kMaxReads + 3;
  for (const Kind& kind :
       {Kind{tuttiAlgorithmTwoLevel, all_reduce}, Kind{tuttiAlgorithmTwoLevelTree, reduce},
        Kind{tuttiAlgorithmParameterServer, all_reduce}, Kind{tuttiAlgorithmAllToAllBroadcast, all_reduce}}) {
    const auto ranks = BuildAll(kind, kManyRanks, 1, 1);
    EXPECT_EQ(Verify(ranks, {.in_place = true, .operations = 2}), std::nullopt) << builders::NameOf(kind.algorithm);
  }
}

TEST(OutputExpression, SaysWhatAnElementIsMadeOf) {
  using enum Collective;
  EXPECT_EQ(OutputExpression(BuildAll({tuttiAlgorithmDirect, all_reduce}, 3, 0, 1), 2, 0), "final(s0 + s1 + s2)");
  EXPECT_EQ(OutputExpression(BuildAll({tuttiAlgorithmRing, all_reduce}, 3, 0, 1), 2, 0), "final((s1 + s2) + s0)");
  EXPECT_EQ(OutputExpression(BuildAll({tuttiAlgorithmRing, all_gather}, 3, 0, 1), 2, 1), "in1[1]");
  EXPECT_EQ(OutputExpression(BuildAll({tuttiAlgorithmNvls, all_reduce}, 3, 0, 1), 2, 0), "final(s0 + s1 + s2)");
  EXPECT_EQ(OutputExpression(BuildAll({tuttiAlgorithmBruck, all_to_all}, 3, 0, 1), 2, 1), "in1[2]");
}

}  // namespace
}  // namespace tutti::verifier
