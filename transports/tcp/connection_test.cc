#include "transports/tcp/connection.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/net_testing.h"
#include "transports/progress/network_transport_testing.h"

namespace tutti::tcp {
namespace {

using Connections = std::vector<std::unique_ptr<TcpConnection>>;

net::SocketAddress Loopback(std::uint8_t last) {
  auto address = net::SocketAddress::Loopback(false, 0);
  address.ip[3] = last;
  return address;
}

TEST(TcpConnection, RanksBeginOnDifferentInterfaces) {
  const std::vector own = {Loopback(1), Loopback(2), Loopback(3)};
  const auto second = testing::ConnectedAt(Loopback(2));
  EXPECT_EQ(TurnOf(second.server, own, 0), 1u);
  EXPECT_EQ(TurnOf(second.server, own, 1), 0u);
  EXPECT_EQ(TurnOf(second.server, own, 2), 2u);
  EXPECT_EQ(TurnOf(second.server, own, 4), 0u);
  const auto foreign = testing::ConnectedAt(Loopback(4));
  EXPECT_EQ(TurnOf(foreign.server, own, 0), 3u);
  EXPECT_EQ(TurnOf(foreign.server, own, 1), 3u);
}

TEST(TcpConnection, NobodyIsTheShortestOfNone) { EXPECT_EQ(Shortest({}, true), nullptr); }

TEST(TcpConnection, WhatWaitsCountsAndThenTheTurn) {
  Connections connections;
  std::vector<net::Socket> others;
  for (const std::size_t turn : {2, 0, 1}) {
    auto ends = testing::ConnectedAt(Loopback(1));
    connections.push_back(std::make_unique<TcpConnection>(TcpConnection{TcpStream(std::move(ends.client), 1), turn}));
    others.push_back(std::move(ends.server));
  }
  EXPECT_EQ(Shortest(connections, false), connections[1].get());
  connections[1]->stream.QueueControl(std::as_bytes(std::span("waits")));
  EXPECT_EQ(Shortest(connections, false), connections[2].get());

  // More than the systems have room for while no thread reads it: from some point on not all is acknowledged.
  const std::vector<std::byte> data(64 << 20);
  progress::HeardEvents events;
  connections[2]->stream.QueueSlot(
      {.connection = 1, .number = 1, .tag = 1, .bytes = static_cast<std::uint32_t>(data.size())}, data.data());
  ASSERT_TRUE(connections[2]->stream.Flush(events));
  EXPECT_GT(connections[2]->stream.bytes_on_the_way(), connections[2]->stream.bytes_queued());
  EXPECT_EQ(Shortest(connections, true), connections[0].get());
}

}  // namespace
}  // namespace tutti::tcp
