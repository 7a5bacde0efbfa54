// The verifier rejects wrong schedules: they are damaged in every way we could think of, and each damage must be found.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/builders/build.h"
#include "algorithms/builders/records.h"
#include "algorithms/builders/steps.h"
#include "algorithms/verifier/verify.h"
#include "algorithms/verifier/verify_testing.h"
#include "testing/surroundings.h"

namespace tutti::verifier {
namespace {

using enum Collective;
using Ranks = std::vector<Schedule>;

Ranks BuildAll(tuttiAlgorithm_t algorithm, Collective collective, int n, int root = 0) {
  return BuildEverywhere(algorithm, builders::ScheduleRequest{collective, 0, n, root});
}

std::vector<Step>& Steps(Schedule& schedule, int lane = 0) { return schedule.channels[0].lanes[lane].steps; }

// Two chunks of each of `blocks` blocks, twice.
VerifyOptions Twice(int blocks) { return {.lengths = {std::vector<int>(blocks, 2)}, .operations = 2}; }

// The message has all of these words.
void ExpectFound(const Ranks& ranks, const VerifyOptions& options, const std::vector<std::string>& words) {
  const auto message = Verify(ranks, options);
  ASSERT_TRUE(message) << "not found";
  for (const auto& word : words) EXPECT_NE(message->find(word), std::string::npos) << *message << "\nlacks: " << word;
}

TEST(Mutation, DroppedStep) {
  auto ranks = BuildAll(tuttiAlgorithmRing, all_reduce, 4);
  Steps(ranks[2]).erase(Steps(ranks[2]).begin() + 1);
  ExpectFound(ranks, Twice(4), {"all_reduce by ring", "rank 3 of 4", "channel 0", "lane 0", "step", "chunk"});
}

TEST(Mutation, SwappedBlocks) {
  auto ranks = BuildAll(tuttiAlgorithmRing, all_gather, 4);
  std::swap(Steps(ranks[1])[1].writes[0], Steps(ranks[1])[2].writes[0]);
  ExpectFound(ranks, Twice(4), {"rank 1", "channel 0", "lane 0", "step 2", "chunk 0", "out[0]", "should be in0[0]"});
}

TEST(Mutation, DoubledContribution) {
  auto ranks = BuildAll(tuttiAlgorithmRing, reduce, 4);
  ranks[2].scratch_blocks = 1;
  auto& steps = Steps(ranks[2]);
  steps[0].reads.push_back(Scratch(0));
  steps.insert(steps.begin(), builders::MakeStep(0, {Scaled(0)}, {Scratch(0)}));
  ExpectFound(ranks, Twice(1), {"rank 0", "channel 0", "lane 0", "step 0", "chunk 0", "rank 2's contribution twice"});
}

TEST(Mutation, LostContribution) {
  auto ranks = BuildAll(tuttiAlgorithmRing, reduce, 4);
  Steps(ranks[2])[0].reads.pop_back();
  ExpectFound(ranks, Twice(1), {"rank 0", "lacks rank 2's contribution"});
}

TEST(Mutation, MissingAfter) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, all_reduce, 3);
  Steps(ranks[1], 1)[0].after.clear();
  VerifyOptions options = Twice(1);
  EXPECT_EQ(Verify(ranks, options), std::nullopt) << "out of place it is not needed";
  options.in_place = true;
  ExpectFound(ranks, options,
              {"rank 1 of 3, channel 0, lane 1, step 0, chunk 0", "overwritten while it may be in use by",
               "rank 1 of 3, channel 0, lane 0, step 0, chunk 0"});
}

TEST(Mutation, MissingAfterInAllToAll) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, all_to_all, 3);
  Steps(ranks[2], 1)[1].after.clear();
  VerifyOptions options = Twice(9);
  options.in_place = true;
  ExpectFound(ranks, options, {"rank 2 of 3, channel 0, lane 1, step 1, chunk 0", "overwritten"});
}

TEST(Mutation, InputThatIsNotSeparate) {
  auto ranks = BuildAll(tuttiAlgorithmPeerMemory, all_to_all, 3);
  VerifyOptions options = Twice(9);
  options.in_place = true;
  EXPECT_EQ(Verify(ranks, options), std::nullopt);
  for (Schedule& rank : ranks) rank.separate_input = false;
  EXPECT_NE(Verify(ranks, options), std::nullopt);
  options.in_place = false;
  EXPECT_EQ(Verify(ranks, options), std::nullopt) << "out of place it is not needed";
}

TEST(Mutation, MissingFinal) {
  auto ranks = BuildAll(tuttiAlgorithmTwoShot, all_reduce, 3);
  Steps(ranks[1], 1)[0].final = false;
  ExpectFound(ranks, Twice(3), {"out[1]", "chunk 0", "final was not applied to it last", "last written by", "step"});
}

TEST(Mutation, FinalTooEarly) {
  auto ranks = BuildAll(tuttiAlgorithmRing, reduce_scatter, 4);
  Steps(ranks[1])[1].final = true;
  ExpectFound(ranks, Twice(4), {"final was applied to a part of it"});
}

TEST(Mutation, MissingScale) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, reduce, 3);
  Steps(ranks[1])[0].reads[0].scaled = false;
  ExpectFound(ranks, Twice(1), {"rank 0", "in1[0] was not scaled"});
}

// In place, the output of a step that scales is the input that the next one scales.
TEST(Mutation, DoubleScale) {
  auto ranks = BuildAll(tuttiAlgorithmRing, all_reduce, 2);
  Steps(ranks[0]).insert(Steps(ranks[0]).begin(), builders::MakeStep(1, {Scaled(1)}, {Out(1)}));
  VerifyOptions options = Twice(2);
  EXPECT_EQ(Verify(ranks, options), std::nullopt) << "out of place it is only useless";
  options.in_place = true;
  ExpectFound(ranks, options, {"something was scaled that is not one rank's contribution"});
}

TEST(Mutation, PostNotRead) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, broadcast, 3);
  ranks[2].channels[0].lanes.clear();
  ExpectFound(ranks, {.lengths = {{1}}}, {"rank 2, channel 0", "no step wrote it"});
  ranks = BuildAll(tuttiAlgorithmDirect, all_gather, 3);
  Steps(ranks[2], 1)[0] = builders::MakeStep(0, {Out(2)}, {Out(0)});
  ExpectFound(ranks, Twice(3), {"rank"});
}

// Right results, but one slot is never emptied.
TEST(Mutation, SlotLeftOver) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, gather, 3);
  Steps(ranks[1])[0].writes.push_back(To(2));
  ExpectFound(ranks, {}, {"rank 1 of 3, channel 0, lane 0, step 0, chunk 0", "1 readers never empty the slot"});
  ExpectFound(ranks, {.operations = 9},
              {"deadlock", "rank 1 of 3, channel 0, lane 0, step 0, chunk 0", "waits for rank 2 to empty"});
}

TEST(Mutation, WrongPeer) {
  auto ranks = BuildAll(tuttiAlgorithmRing, all_gather, 4);
  Steps(ranks[1])[0].writes[1] = To(3);
  ExpectFound(ranks, Twice(4),
              {"rank 2 of 4, channel 0, lane 0, step 3, chunk 0", "but finds one", "filled by", "rank 1 of 4"});
}

TEST(Mutation, DeadlockByOrder) {
  auto ranks = BuildAll(tuttiAlgorithmRing, all_reduce, 3);
  for (auto& rank : ranks) std::swap(Steps(rank)[0], Steps(rank)[1]);
  VerifyOptions options = Twice(3);
  options.slot_depth = 64;
  ExpectFound(ranks, options,
              {"deadlock", "rank 0 of 3, channel 0, lane 0, step 0, chunk 0", "{from(2), scaled in[1]}",
               "waits for rank 2 to fill a slot", "rank 1 of 3", "rank 2 of 3"});
}

// Every rank sends everything before it receives: that takes as many slots as there are blocks to send.
TEST(Mutation, DeadlockByDepth) {
  auto ranks = BuildAll(tuttiAlgorithmBruck, all_gather, 8);
  for (auto& rank : ranks) {
    auto& steps = Steps(rank);
    const auto first = steps.end() - 8;  // the last round: four sends, four receives
    std::stable_partition(first, steps.end(),
                          [](const Step& step) { return step.reads[0].kind == OperandKind::output; });
  }
  VerifyOptions options{.slot_depth = 4};
  EXPECT_EQ(Verify(ranks, options), std::nullopt);
  options.slot_depth = 3;
  ExpectFound(ranks, options, {"deadlock", "rank 0 of 8", "channel 0, lane 0, step", "to empty one of 3 slots"});
}

TEST(Mutation, ReferenceHazard) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, all_reduce, 3);
  VerifyOptions options = Twice(1);
  options.in_place = true;
  EXPECT_EQ(Verify(ranks, options), std::nullopt) << "by value it is safe";
  options.by_reference = true;
  ExpectFound(ranks, options, {"rank", "channel 0, lane", "step 0", "chunk 0", "may"});
  options.in_place = false;
  EXPECT_EQ(Verify(ranks, options), std::nullopt);
}

TEST(Mutation, ScratchRaceBetweenChunks) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, reduce, 2);
  ranks[1].scratch_blocks = 1;
  Step keep = builders::MakeStep(0, {Scaled(0)}, {Scratch(0)});
  Step send = builders::MakeStep(0, {Scratch(0)}, {To(0)});
  send.after = {{0, 0}};
  ranks[1].channels[0].lanes = {Lane{{keep}}, Lane{{send}}};
  EXPECT_EQ(Verify(ranks, {}), std::nullopt) << "with one chunk it is safe";
  ExpectFound(ranks, Twice(1),
              {"rank 1 of 2, channel 0, lane 1, step 0, chunk 0",
               "may be read before or after it is written by reduce by direct, rank 1 of 2, channel 0, lane 0, step 0, "
               "chunk 1"});
}

TEST(Mutation, ScratchCarriesOver) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, reduce, 2);
  ranks[1].scratch_blocks = 1;
  Steps(ranks[1]) = {builders::MakeStep(0, {Scaled(0)}, {To(0), Scratch(0)}),
                     builders::MakeStep(1, {Scratch(0)}, {Scratch(0)})};
  for (auto& rank : ranks) rank.blocks = 2;
  Steps(ranks[0]).push_back(builders::Finally(builders::MakeStep(1, {Scaled(1)}, {Out(1)})));
  VerifyOptions options{.lengths = {{1, 2}}};
  ExpectFound(ranks, options, {"rank 1 of 2, channel 0, lane 0, step 1, chunk 1", "scratch[0] holds another chunk"});
}

TEST(Mutation, WrongLength) {
  auto ranks = BuildAll(tuttiAlgorithmRing, all_gather, 3);
  Steps(ranks[1])[1].block = 2;
  ExpectFound(ranks, {.lengths = {{4, 4, 3}}, .chunk = 4},
              {"rank 1 of 3, channel 0, lane 0, step 1, chunk 0", "length 3", "length 4"});
}

// Errors that are visible without running anything.
TEST(Mutation, IllegalSentences) {
  const auto expect = [](Collective collective, const std::function<void(Schedule&)>& damage, const std::string& word) {
    auto ranks = BuildAll(tuttiAlgorithmDirect, collective, 3);
    damage(ranks[1]);
    ExpectFound(ranks, {}, {"rank 1 of 3, channel 0, lane", "step 0, chunk 0", word});
  };
  expect(
      broadcast, [](Schedule& s) { Steps(s)[0].reads = {In(0)}; }, "no block 0 in its input");
  expect(
      reduce, [](Schedule& s) { Steps(s)[0].writes.push_back(Out(0)); }, "no block 0 in its output");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].reads = {In(2)}; }, "no block 2 in its input");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].reads = {Scaled(1)}; }, "can be scaled");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].final = true; }, "no step can be final");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].writes = {To(1)}; }, "no connection with itself");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].writes = {To(3)}; }, "there is no rank 3");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].writes = {From(2)}; }, "can only be read");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].reads = {To(2)}; }, "can only be written");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].writes = {In(1)}; }, "the input must not be written");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].writes = {Scratch(0)}; }, "there is no scratch[0]");
  expect(
      gather,
      [](Schedule& s) {
        Steps(s)[0].writes = {To(0), To(0)};
      },
      "the same operand twice");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].writes.clear(); }, "at least one read and one write");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].block = 3; }, "there is no block 3");
  expect(
      gather,
      [](Schedule& s) {
        Steps(s)[0].after = {{1, 0}};
      },
      "lane 1, step 0, which does not exist");
  expect(
      all_gather, [](Schedule& s) { Steps(s)[0].writes = {Post(2)}; }, "a rank can post only its own slots");
  expect(
      gather,
      [](Schedule& s) {
        Steps(s)[0].reads = {In(1), From(2)};
      },
      "a step can have only one read");
  expect(
      gather, [](Schedule& s) { Steps(s)[0].writes.assign(kMaxWrites + 1, To(0)); }, "the limits are");
}

TEST(Mutation, TwoLanesFillOneConnection) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, gather, 3);
  ranks[1].channels[0].lanes.push_back(ranks[1].channels[0].lanes[0]);
  ExpectFound(ranks, {}, {"rank 1 of 3, channel 0, lane 1, step 0", "lane 0 is filling that connection already"});
}

TEST(Mutation, SchedulesThatDoNotBelongTogether) {
  auto ranks = BuildAll(tuttiAlgorithmDirect, gather, 3);
  ranks[2] = *builders::Build(tuttiAlgorithmDirect, {gather, 2, 3, 1});
  ExpectFound(ranks, {}, {"ranks 0 and 2 differ"});
  std::swap(ranks[0], ranks[1]);
  ExpectFound(ranks, {}, {"schedule 0 of 3 is for rank 1 of 3"});
  EXPECT_TRUE(Verify({}, {}));
}

// ---- every small damage to every step of every schedule ----

// The conditions that a schedule must withstand: two chunks, few slots, several operations, in place and not.
std::optional<std::string> VerifyBothPlaces(const Ranks& ranks) {
  const int n =
      ranks.front().collective == all_to_all ? ranks.front().nranks * ranks.front().nranks : ranks.front().blocks;
  VerifyOptions options = Twice(n);
  if (auto message = Verify(ranks, options)) return message;
  options.in_place = true;
  return Verify(ranks, options);
}

// Calls damage(step) on a copy for each step that it can damage, and expects each damage to be found.
int ExpectAllFound(const Ranks& ranks, const std::function<bool(Step&)>& damage, const std::string& what) {
  int damaged = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t l = 0; l < ranks[r].channels[0].lanes.size(); ++l) {
      for (std::size_t s = 0; s < ranks[r].channels[0].lanes[l].steps.size(); ++s) {
        Ranks copy = ranks;
        Step& step = Steps(copy[r], static_cast<int>(l))[s];
        const std::string was = ToString(step);
        if (!damage(step)) continue;
        ++damaged;
        const auto message = VerifyBothPlaces(copy);
        EXPECT_TRUE(message) << what << " in rank " << r << ", lane " << l << ", step " << s << ": " << was << "\nof\n"
                             << ToString(ranks[r], builders::NameOf(ranks[r].algorithm));
        EXPECT_NE(message.value_or("chunk").find("chunk"), std::string::npos) << *message;
      }
    }
  }
  return damaged;
}

// Returns the number of ways found to damage a step.
int DamageEverything(const Ranks& ranks) {
  int damaged = 0;
  EXPECT_EQ(VerifyBothPlaces(ranks), std::nullopt);
  const auto expect = [&](const std::string& what, const std::function<bool(Step&)>& damage) {
    damaged += ExpectAllFound(ranks, damage, what);
  };
  for (const std::size_t i : {0, 1, 2, 3, 4}) {
    expect("dropped read", [&](Step& step) {
      if (i >= step.reads.size()) return false;
      step.reads.erase(step.reads.begin() + static_cast<int>(i));
      return true;
    });
    expect("dropped write", [&](Step& step) {
      if (i >= step.writes.size()) return false;
      step.writes.erase(step.writes.begin() + static_cast<int>(i));
      return true;
    });
    for (const bool written : {false, true}) {
      expect("wrong block or peer", [&](Step& step) {
        auto& operands = written ? step.writes : step.reads;
        if (i >= operands.size()) return false;
        auto& name = operands[i].block >= 0 ? operands[i].block : operands[i].peer;
        const int count = operands[i].block >= 0 ? ranks[0].blocks : ranks[0].nranks;
        name = static_cast<std::int16_t>((name + 1) % count);
        return count > 1;
      });
    }
  }
  expect("final", [&](Step& step) { return IsReducing(ranks[0].collective) && (step.final = !step.final, true); });
  expect("scale", [&](Step& step) {
    if (!IsReducing(ranks[0].collective) || step.reads[0].kind != OperandKind::input) return false;
    step.reads[0].scaled = !step.reads[0].scaled;
    return true;
  });
  expect("connection", [&](Step& step) {
    if (ranks[0].connections == 1) return false;
    auto& operand = step.writes.back();
    operand.connection = static_cast<std::int16_t>((operand.connection + 1) % ranks[0].connections);
    return operand.kind == OperandKind::to;
  });
  return damaged;
}

TEST(Mutation, EveryDamageToEveryStepIsFound) {
  if (const auto why = testing::WhyEmulated("takes long, and is alike on all processors"); !why.empty()) {
    GTEST_SKIP() << why;
  }
  constexpr int kRanks = 5;
  int damaged = 0;
  for (int a = 0; a < tuttiNumAlgorithms; ++a) {
    for (int c = 0; c < kScheduledCollectives; ++c) {
      const auto algorithm = static_cast<tuttiAlgorithm_t>(a);
      const auto collective = static_cast<Collective>(c);
      if (!builders::Supports(algorithm, collective, kRanks)) continue;
      const auto ranks = BuildAll(algorithm, collective, kRanks, 2);
      damaged += DamageEverything(ranks);
      for (const NodeLayout& layout : kNodeLayouts) {
        if (!builders::RecordOf(algorithm).arranges(collective)) continue;
        const RankLayout where = layout.arrange(kRanks);
        damaged += DamageEverything(
            BuildEverywhere(algorithm, builders::ScheduleRequest{collective, 0, kRanks, 2, 1, &where}));
      }
    }
  }
  EXPECT_GT(damaged, 1000);
}

}  // namespace
}  // namespace tutti::verifier
