#include "transports/verbs/ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"

namespace tutti::verbs {
namespace {

GidFacts At(int index, GidKind kind, const std::string& address, bool reachable = true) {
  GidFacts facts{index, kind, {}, reachable};
  const std::string v6 = address.find(':') == std::string::npos ? "::ffff:" + address : address;
  EXPECT_EQ(inet_pton(AF_INET6, v6.c_str(), facts.gid.data()), 1);
  return facts;
}

PortFacts Port(const std::string& device, int port, double speed, bool ethernet = true, bool active = true) {
  return {device, port, ethernet, active, active ? "active" : "down", speed, {}};
}

std::string MessageOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
bool Says(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

TEST(VerbsPorts, NamesAreOfDevicesOrOfTheirPorts) {
  const auto accepts = [](std::string_view text, std::string_view device, int port) {
    return AcceptsPort(ParseHcaFilter(text), device, port);
  };
  EXPECT_TRUE(accepts("", "mlx5_0", 1));
  EXPECT_TRUE(accepts("mlx5", "mlx5_0", 1));
  EXPECT_FALSE(accepts("mlx5", "irdma0", 1));
  EXPECT_TRUE(accepts("=mlx5_1", "mlx5_1", 2));
  EXPECT_FALSE(accepts("=mlx5_1", "mlx5_10", 1));
  EXPECT_TRUE(accepts("=mlx5_0:1,mlx5_1", "mlx5_0", 1));
  EXPECT_FALSE(accepts("=mlx5_0:1,mlx5_1", "mlx5_0", 2));
  EXPECT_FALSE(accepts("^mlx5_0", "mlx5_0", 1));
  EXPECT_TRUE(accepts("^mlx5_0", "mlx5_1", 1));
  EXPECT_FALSE(accepts("^=mlx5_0:2", "mlx5_0", 2));
  EXPECT_TRUE(accepts("^=mlx5_0:2", "mlx5_0", 1));
  EXPECT_TRUE(accepts("=a_device_with_a_long_name:1", "a_device_with_a_long_name", 1));
  EXPECT_TRUE(Says(MessageOf([] { ParseHcaFilter("="); }), "TUTTI_IB_HCA=\"=\" is not allowed"));
}

using Indices = std::vector<std::size_t>;

TEST(VerbsPorts, WithoutNamesTheFastestOfOneKind) {
  const std::vector<PortFacts> ports = {Port("a", 1, 25), Port("b", 1, 100), Port("c", 1, 100, false),
                                        Port("d", 1, 100), Port("e", 1, 400, true, false)};
  EXPECT_EQ(ChoosePorts(ports, ""), (Indices{1, 3}));
  EXPECT_EQ(ChoosePorts(ports, "^b,d"), (Indices{2}));
  EXPECT_EQ(ChoosePorts(std::vector<PortFacts>(9, Port("a", 1, 1)), "").size(), kMostRails);
}

TEST(VerbsPorts, NearOnesFirstIfTheyAreAmongTheFastest) {
  const std::vector<PortFacts> ports = {Port("a", 1, 25), Port("b", 1, 100), Port("c", 1, 100, false),
                                        Port("d", 1, 100)};
  EXPECT_EQ(ChoosePorts(ports, "", {"a", "d"}), (Indices{3})) << "a is too slow";
  EXPECT_EQ(ChoosePorts(ports, "", {"d", "b"}), (Indices{3, 1}));
  EXPECT_EQ(ChoosePorts(ports, "", {"a", "x"}), (Indices{1, 3}));
  EXPECT_EQ(ChoosePorts(ports, "^d", {"d"}), (Indices{1}));
  EXPECT_EQ(ChoosePorts(ports, "a,b,d", {"d"}), (Indices{3})) << "prefixes do not say which is near";
  EXPECT_EQ(ChoosePorts(ports, "=b,a", {"d"}), (Indices{1, 0})) << "names do";
}

TEST(VerbsPorts, WithNamesThoseInTheirOrder) {
  const std::vector<PortFacts> ports = {Port("a", 1, 25), Port("a", 2, 25), Port("b", 1, 100)};
  EXPECT_EQ(ChoosePorts(ports, "=b,a"), (Indices{2, 0, 1}));
  EXPECT_EQ(ChoosePorts(ports, "b,a"), (Indices{2}));
  EXPECT_EQ(ChoosePorts(ports, "=a:2,b:1"), (Indices{1, 2}));
}

TEST(VerbsPorts, WhatDoesNotFitIsSaid) {
  const std::vector<PortFacts> ports = {Port("a", 1, 25), Port("b", 1, 100, false, false)};
  const auto none = MessageOf([&] { ChoosePorts(ports, "=c"); });
  EXPECT_TRUE(Says(none, "TUTTI_IB_HCA=\"=c\"") && Says(none, "a:1 (RoCE, active), b:1 (InfiniBand, down)")) << none;
  const auto down = MessageOf([&] { ChoosePorts(ports, "=b:1"); });
  EXPECT_TRUE(Says(down, "b port 1 is down")) << down;
  EXPECT_TRUE(Says(MessageOf([] { ChoosePorts({}, ""); }), "this machine has: none"));
}

TEST(VerbsPorts, AddressesInOrderOfPreference) {
  auto port = Port("a", 1, 1);
  const auto chosen = [&](int wanted = -1) { return port.gids[ChooseGid(port, wanted)].index; };
  port.gids.push_back(At(0, GidKind::roce_v1, "10.0.0.1"));
  EXPECT_EQ(chosen(), 0);
  port.gids.push_back(At(1, GidKind::roce_v2, "fe80::1"));
  EXPECT_EQ(chosen(), 1);
  port.gids.push_back(At(4, GidKind::roce_v2, "2001:db8::1"));
  EXPECT_EQ(chosen(), 4);
  port.gids.push_back(At(5, GidKind::roce_v2, "192.168.0.1", false));
  EXPECT_EQ(chosen(), 4);
  port.gids.push_back(At(6, GidKind::roce_v2, "10.0.0.1"));
  port.gids.push_back(At(7, GidKind::roce_v2, "10.0.0.2"));
  EXPECT_EQ(chosen(), 6);
  EXPECT_EQ(chosen(5), 5);  // an explicit choice is trusted
  const auto error = MessageOf([&] { ChooseGid(port, 3); });
  EXPECT_TRUE(Says(error, "TUTTI_IB_GID_INDEX=3: a port 1")) << error;
  EXPECT_TRUE(Says(error,
                   "0: RoCE v1 10.0.0.1, 1: RoCE v2 fe80::1, 4: RoCE v2 2001:db8::1, 5: RoCE v2 192.168.0.1 (of "
                   "another network namespace), 6:"))
      << error;
}

TEST(VerbsPorts, InfiniBandUsesItsFirstAddress) {
  auto port = Port("a", 1, 1, false);
  EXPECT_TRUE(Says(MessageOf([&] { ChooseGid(port, -1); }), "It has none"));
  port.gids = {At(0, GidKind::infiniband, "fe80::2"), At(1, GidKind::infiniband, "fec0::2")};
  EXPECT_EQ(ChooseGid(port, -1), 0U);
  EXPECT_EQ(ChooseGid(port, 1), 1U);
}

}  // namespace
}  // namespace tutti::verbs
