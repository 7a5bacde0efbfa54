#include "transports/progress/silence.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "net/net_testing.h"

namespace tutti::progress {
namespace {

using namespace std::chrono_literals;

net::Socket Listening() { return std::move(net::Listen(net::SocketAddress::Loopback(false, 0)).socket); }

constexpr Deadline::Milliseconds kSilence{2'000};
constexpr std::uint32_t kSilentFor = 2'100;

// The final verdict; nothing if the peer is trusted.
std::optional<std::string> LookUntilDecided(SilenceWatch& watch, const std::vector<net::SocketAddress>& addresses) {
  const auto give_up = Deadline::After(10s);
  while (!give_up.Passed()) {
    auto why = watch.Look(kSilentFor, addresses, kSilence);
    if (why || !watch.calling()) return why;
    std::this_thread::sleep_for(1ms);
  }
  return "undecided";
}

TEST(SilenceWatch, TrustsWhoTakesCalls) {
  const auto listener = Listening();
  SilenceWatch watch;
  EXPECT_EQ(watch.Look(std::nullopt, {net::LocalAddress(listener)}, kSilence), std::nullopt);
  EXPECT_FALSE(watch.calling()) << "nobody is silent";
  EXPECT_EQ(LookUntilDecided(watch, {net::LocalAddress(listener)}), std::nullopt);
  // For a while it is not called again.
  EXPECT_EQ(watch.Look(kSilentFor, {net::LocalAddress(listener)}, kSilence), std::nullopt);
  EXPECT_FALSE(watch.calling());
}

TEST(SilenceWatch, GivesUpWhoseTimeHasPassed) {
  const auto closed = net::SocketAddress::Loopback(false, testing::FreePort());
  SilenceWatch watch;
  EXPECT_EQ(LookUntilDecided(watch, {closed}), "its connection is silent, and its port is closed");
  const auto listener = Listening();
  SilenceWatch another;
  EXPECT_EQ(LookUntilDecided(another, {closed, net::LocalAddress(listener)}), std::nullopt)
      << "by one of its addresses";
  // By then a TCP retransmission would have been answered.
  EXPECT_EQ(another.Look(5'001, {net::LocalAddress(listener)}, kSilence), "its host has not answered for 5001 ms");
  SilenceWatch nowhere;
  EXPECT_EQ(LookUntilDecided(nowhere, {}), "its host has not answered for 2100 ms");
}

}  // namespace
}  // namespace tutti::progress
