#include "transports/tcp/hot_connections.h"

#include <gtest/gtest.h>

#include <optional>

namespace tutti::tcp {
namespace {

// The next connection to look at; none if all are asked about for longer than a round.
std::optional<std::uint64_t> NextConnection(HotConnections& connections) {
  for (int i = 0; i < HotConnections::kRound; ++i) {
    if (const auto connection = connections.Next()) return connection;
  }
  return std::nullopt;
}

TEST(HotConnections, NobodyIsHotAtFirst) {
  HotConnections connections;
  EXPECT_EQ(NextConnection(connections), std::nullopt);
}

TEST(HotConnections, TheOneThatWasQuietLongestIsNext) {
  HotConnections connections;
  for (const std::uint64_t connection : {7, 8, 9, 7}) connections.Received(connection);
  EXPECT_EQ(NextConnection(connections), 8);
  connections.Received(8);
  EXPECT_EQ(NextConnection(connections), 9);
}

TEST(HotConnections, OneOfARoundAsksAboutAll) {
  HotConnections connections;
  connections.Received(7);
  int asked = 0;
  for (int i = 0; i < 10 * HotConnections::kRound; ++i) {
    const auto connection = connections.Next();
    asked += connection ? 0 : 1;
    if (connection) connections.Received(*connection);
  }
  EXPECT_EQ(asked, 10);
}

TEST(HotConnections, WhoIsQuietGoesCold) {
  HotConnections connections;
  connections.Received(7);
  connections.Received(8);
  for (int i = 0; i < HotConnections::kPatience; ++i) {
    EXPECT_EQ(NextConnection(connections), 7);
    connections.Missed();
  }
  EXPECT_EQ(NextConnection(connections), 8);
  for (std::uint64_t i = 0; i <= HotConnections::kMemory; ++i) connections.Received(9);
  EXPECT_EQ(NextConnection(connections), 9) << "8 has sent nothing while 9 sent much";
}

TEST(HotConnections, ManyAreAskedAboutTogether) {
  HotConnections connections;
  for (std::uint64_t connection = 0; connection <= HotConnections::kMost; ++connection)
    connections.Received(connection);
  EXPECT_EQ(NextConnection(connections), std::nullopt);
  for (std::uint64_t i = 0; i <= HotConnections::kMemory; ++i) connections.Received(0);
  EXPECT_EQ(NextConnection(connections), 0);
}

}  // namespace
}  // namespace tutti::tcp
