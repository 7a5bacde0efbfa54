#include "transports/tcp/hot_connections.h"

#include <gtest/gtest.h>

#include <optional>

namespace tutti::tcp {
namespace {

// The next line to look at; none if all are asked about for longer than a round.
std::optional<std::uint64_t> NextLine(HotConnections& lines) {
  for (int i = 0; i < HotConnections::kRound; ++i) {
    if (const auto line = lines.Next()) return line;
  }
  return std::nullopt;
}

TEST(HotConnections, NobodyIsWarmAtFirst) {
  HotConnections lines;
  EXPECT_EQ(NextLine(lines), std::nullopt);
}

TEST(HotConnections, TheOneThatWasQuietLongestIsNext) {
  HotConnections lines;
  for (const std::uint64_t line : {7, 8, 9, 7}) lines.Received(line);
  EXPECT_EQ(NextLine(lines), 8);
  lines.Received(8);
  EXPECT_EQ(NextLine(lines), 9);
}

TEST(HotConnections, OneOfARoundAsksAboutAll) {
  HotConnections lines;
  lines.Received(7);
  int asked = 0;
  for (int i = 0; i < 10 * HotConnections::kRound; ++i) {
    const auto line = lines.Next();
    asked += line ? 0 : 1;
    if (line) lines.Received(*line);
  }
  EXPECT_EQ(asked, 10);
}

TEST(HotConnections, WhoIsQuietGoesCold) {
  HotConnections lines;
  lines.Received(7);
  lines.Received(8);
  for (int i = 0; i < HotConnections::kPatience; ++i) {
    EXPECT_EQ(NextLine(lines), 7);
    lines.Missed();
  }
  EXPECT_EQ(NextLine(lines), 8);
  for (std::uint64_t i = 0; i <= HotConnections::kMemory; ++i) lines.Received(9);
  EXPECT_EQ(NextLine(lines), 9) << "8 has sent nothing while 9 sent much";
}

TEST(HotConnections, ManyAreAskedAboutTogether) {
  HotConnections lines;
  for (std::uint64_t line = 0; line <= HotConnections::kMost; ++line) lines.Received(line);
  EXPECT_EQ(NextLine(lines), std::nullopt);
  for (std::uint64_t i = 0; i <= HotConnections::kMemory; ++i) lines.Received(0);
  EXPECT_EQ(NextLine(lines), 0);
}

}  // namespace
}  // namespace tutti::tcp
