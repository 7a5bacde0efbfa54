#include "net/interfaces.h"

#include <gtest/gtest.h>

#include "net/net_testing.h"

namespace tutti::net {
namespace {

InterfaceAddress At(std::string interface, const std::string& ip) {
  return {std::move(interface), *SocketAddress::Parse(ip, 0)};
}

const std::vector<InterfaceAddress> kMachine = {
    At("lo", "127.0.0.1"),  At("lo", "::1"),           At("docker0", "172.17.0.1"),
    At("eth0", "10.0.0.1"), At("eth0", "2001:db8::1"), At("eth0", "fe80::1"),
    At("eth1", "10.1.0.1"), At("eth10", "10.2.0.1"),   At("ib0", "192.168.0.1"),
};

std::vector<std::string> Choose(std::string_view ifname, std::string_view family = "",
                                const std::vector<InterfaceAddress>& machine = kMachine) {
  std::vector<std::string> texts;
  for (const auto& address : ChooseAddresses(machine, ifname, family)) texts.push_back(address.Text());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(InterfaceFilter, PrefixesExactNamesAndExclusion) {
  const auto accepts = [](std::string_view text, std::string_view name) {
    return InterfaceFilter::Parse(text).Accepts(name);
  };
  EXPECT_TRUE(accepts("", "anything"));
  EXPECT_TRUE(accepts("eth,ib", "eth10"));
  EXPECT_TRUE(accepts("eth,ib", "ib0"));
  EXPECT_FALSE(accepts("eth,ib", "lo"));
  EXPECT_TRUE(accepts("=eth1", "eth1"));
  EXPECT_FALSE(accepts("=eth1", "eth10"));
  EXPECT_FALSE(accepts("^docker,lo", "docker0"));
  EXPECT_TRUE(accepts("^docker,lo", "eth0"));
  EXPECT_FALSE(accepts("^=eth1", "eth1"));
  EXPECT_TRUE(accepts("^=eth1", "eth10"));
  EXPECT_TRUE(accepts("eth,", "eth0"));
}

TEST(InterfaceFilter, RefusesWhatCannotBeMeant) {
  for (const auto* text : {"^", "=", "^=", ",", "=,,", "an-interface-name-too-long", "eth0 eth1", "=^eth0", "eth/0"}) {
    try {
      InterfaceFilter::Parse(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), tuttiInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("TUTTI_SOCKET_IFNAME"), std::string::npos);
    }
  }
}

TEST(ChooseAddresses, RealInterfacesFirstNeverLoopbackOrLinkLocal) {
  EXPECT_EQ(Choose(""), (Texts{"10.0.0.1:0", "10.1.0.1:0", "[2001:db8::1]:0"}));
  EXPECT_EQ(Choose("", "inet6"), (Texts{"[2001:db8::1]:0"}));
  EXPECT_EQ(Choose("^eth,ib"), (Texts{"172.17.0.1:0"}));
  EXPECT_EQ(Choose("^eth,ib,docker"), (Texts{"127.0.0.1:0", "[::1]:0"}));
}

TEST(ChooseAddresses, NamedInterfacesInTheOrderNamed) {
  EXPECT_EQ(Choose("ib,eth", "inet"), (Texts{"192.168.0.1:0", "10.0.0.1:0"}));
  EXPECT_EQ(Choose("=eth1"), (Texts{"10.1.0.1:0"}));
  EXPECT_EQ(Choose("=lo"), (Texts{"127.0.0.1:0", "[::1]:0"}));
  EXPECT_EQ(Choose("docker"), (Texts{"172.17.0.1:0"}));
}

TEST(ChooseAddresses, NoneIsAnErrorThatListsWhatThereIs) {
  for (const auto& [ifname, family] : {std::pair("wlan", ""), {"=ib0", "inet6"}}) {
    try {
      Choose(ifname, family);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), tuttiInvalidUsage);
      for (const auto* word : {"TUTTI_SOCKET_IFNAME", "TUTTI_SOCKET_FAMILY", "docker0 172.17.0.1,", ifname}) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      }
    }
  }
}

TEST(LocalInterfaces, HasLoopback) {
  const auto all = LocalInterfaces();
  EXPECT_TRUE(std::ranges::any_of(all, [](const auto& one) { return one.address.IsLoopback(); }));
}

TEST(HostPort, ParsesAllForms) {
  EXPECT_EQ(ParseHostPort("X", "node1:29500"), (HostPort{"node1", 29500}));
  EXPECT_EQ(ParseHostPort("X", "10.0.0.1:1"), (HostPort{"10.0.0.1", 1}));
  EXPECT_EQ(ParseHostPort("X", "[::1]:65535"), (HostPort{"::1", 65535}));
  EXPECT_EQ(ParseHostPort("X", "[fe80::1%eth0]:80"), (HostPort{"fe80::1%eth0", 80}));
}

TEST(HostPort, RefusesNamingTheVariable) {
  for (const auto* text : {"", ":", "node1", "node1:", ":80", "node1:0", "node1:65536", "node1:80x", "node1:-1",
                           "::1:80", "[::1]", "[::1:80", "::1]:80", "[]:80", "[node1]:80", "a b:80", "node1: 80"}) {
    try {
      ParseHostPort("TUTTI_COMM_ID", text);
      ADD_FAILURE() << "accepted \"" << text << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), tuttiInvalidUsage);
      EXPECT_NE(std::string(error.what()).find("TUTTI_COMM_ID"), std::string::npos) << error.what();
    }
  }
}

TEST(Resolve, NumbersNeedNoNameServer) {
  EXPECT_EQ(Resolve("X", {"127.0.0.1", 5}, "").front(), SocketAddress::Loopback(false, 5));
  EXPECT_EQ(Resolve("X", {"::1", 5}, "inet6").front(), SocketAddress::Loopback(true, 5));
  EXPECT_THROW(Resolve("X", {"127.0.0.1", 5}, "inet6"), Error);
}

}  // namespace
}  // namespace tutti::net
