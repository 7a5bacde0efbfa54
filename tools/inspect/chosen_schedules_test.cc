#include "tools/inspect/chosen_schedules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/inspect/schedule_drawing.h"

namespace tutti::tools {
namespace {

constexpr const char* kDgx = "topology/testdata/dgxh100.xml";

std::string Refusal(const ScheduleChoice& choice) {
  try {
    ProvedSchedules(choice);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ChosenSchedules, AreProvedWhereverTheRanksAre) {
  for (const char* collective : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"}) {
    EXPECT_EQ(Refusal({.what = collective, .algorithm = "two_level", .ranks_on = {3, 5}}), "") << collective;
    EXPECT_EQ(Refusal({.what = collective, .algorithm = "two_level", .ranks = 7, .nodes = 3}), "") << collective;
  }
  EXPECT_EQ(ProvedSchedules({.what = "all_reduce", .algorithm = "two_level_tree", .ranks_on = {1, 4, 2}}).ranks.size(),
            7U);
}

TEST(ChosenSchedules, AreThoseOfATopology) {
  const auto program =
      ProvedSchedules({.what = "all_gather", .algorithm = "ring", .topology = kDgx, .nodes = 2, .channels = 2});
  ASSERT_EQ(program.ranks.size(), 16U);
  // Each channel's ring crosses at another GPU, so that it uses another NIC, and stays on that one's rail.
  const auto next = [&](int rank, int channel) {
    return program.ranks[rank].channels[channel].lanes.front().steps.front().writes.back().peer;
  };
  EXPECT_EQ(next(7, 0), 15);
  EXPECT_EQ(next(0, 1), 8);
}

TEST(ChosenSchedules, AreRefusedWithTheReason) {
  EXPECT_EQ(
      Refusal({.what = "all_reduce", .algorithm = "rign"}).find("algorithm \"rign\" is unknown; did you mean ring?"),
      0U);
  EXPECT_EQ(Refusal({.what = "all_reduse", .algorithm = "ring"})
                .find("collective \"all_reduse\" is unknown; did you mean all_reduce?"),
            0U);
  EXPECT_EQ(Refusal({.what = "ring"}), "ring needs a collective, such as all_reduce");
  EXPECT_EQ(Refusal({.what = "all_reduce"}), "all_reduce needs an algorithm, such as ring");
  EXPECT_EQ(Refusal({.what = "all_reduce", .algorithm = "ring"}), "an algorithm needs --ranks, --ranks-on or --topo");
  EXPECT_EQ(Refusal({.what = "all_reduce", .algorithm = "ring", .ranks = 2, .nodes = 3}),
            "2 ranks are too few for 3 nodes");
  EXPECT_EQ(Refusal({.what = "all_reduce", .algorithm = "bruck", .ranks = 2}),
            "bruck does not support all_reduce on 2 ranks");
  EXPECT_EQ(Refusal({.what = "broadcast", .algorithm = "ring", .ranks = 4, .root = 4}),
            "the root is rank 4, but the last rank is 3");
  EXPECT_EQ(Refusal({.what = "all_reduce", .algorithm = "ring", .topology = kDgx, .ranks_on = {3, 5}}),
            "--ranks-on cannot be combined with --topo, which defines the nodes itself");
}

TEST(ChosenSchedules, TakeTheFormerOrder) {
  EXPECT_EQ(ProvedSchedules({.what = "ring", .algorithm = "all_gather", .ranks = 4}).name, "ring");
}

// Each rank has a column, and each slot that travels has an arrow.
TEST(DrawSchedules, HasARankAColumnAndASlotAnArrow) {
  const auto program = ProvedSchedules({.what = "all_gather", .algorithm = "ring", .ranks = 4});
  const std::string svg = DrawSchedules(program.ranks, 0, "a <ring>");
  EXPECT_EQ(svg.rfind("<svg", 0), 0U);
  EXPECT_NE(svg.find("a &lt;ring&gt;"), std::string::npos);
  EXPECT_EQ(Count(svg, "font-weight=\"bold\">3</text>"), 1U) << "the last rank's column";
  constexpr std::size_t kPassed = 4 * 3;  // three blocks pass each of four ranks
  EXPECT_EQ(Count(svg, "fill=\"none\""), kPassed) << "lines";
  EXPECT_EQ(Count(svg, " Z\""), kPassed) << "and their heads";
}

}  // namespace
}  // namespace tutti::tools
