#include "transports/tcp/tcp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <functional>
#include <memory>
#include <thread>

#include "base/all_gather.h"
#include "transports/progress/network_transport_testing.h"

namespace tutti::tcp {
namespace {

using progress::kAmple;

// Transports on loopback; the test's thread drives them once they are there.
template <std::size_t kRanks>
class TransportsApart : public progress::TransportsInThreads<TcpTransport, kRanks> {
 public:
  explicit TransportsApart(int sockets = 0)
      : progress::TransportsInThreads<TcpTransport, kRanks>(
            [sockets, key = auth::SecretKey::Random()](int rank, const std::vector<int>& peers,
                                                       const AllGather& all_gather, progress::HeardEvents& heard) {
              Settings settings;
              settings.sockets = sockets;
              settings.socket_ifname = "lo";
              return std::make_unique<TcpTransport>(rank, peers, key, settings, all_gather, heard);
            }) {}
};

// The same, each connected to the first one.
template <std::size_t kRanks>
class TransportsOf : public TransportsApart<kRanks> {
 public:
  TransportsOf() {
    auto& transports = this->transports;
    for (std::size_t peer = 1; peer < kRanks; ++peer) {
      const int rank = static_cast<int>(peer);
      transports[0]->Connect(rank);
      EXPECT_TRUE(this->Until([&] { return transports[0]->Room(rank) > 0 && transports[peer]->Room(0) > 0; }));
    }
  }
};

// The system reports when it no longer needs a slot that it reads in place. That report counts even if the peer, which
// has all of the slot, leaves right after it.
TEST(TcpTransport, WhoseSlotArrivedBeforeThePeerLeftHearsOfIt) {
  TransportsOf<2> two;
  auto& [stays, leaves] = two.transports;
  two.Say(1, 0, "so that its connection is looked at first");
  ASSERT_TRUE(two.Until([&] { return !two.heard[0].texts.empty(); }));

  const std::vector<std::byte> data(256 * 1024, std::byte{7});
  stays->Send(1, {.connection = 1, .number = 1, .tag = 1, .bytes = static_cast<std::uint32_t>(data.size())},
              data.data());
  stays->Flush(1);
  const auto landed = [&] { return !two.heard[1].order.empty(); };
  const auto give_up = Deadline::After(kAmple);
  while (!landed() && !give_up.Passed()) leaves->Advance();
  ASSERT_TRUE(landed());
  leaves.reset();
  ASSERT_TRUE(two.Until([&] { return !two.heard[0].broken.empty(); }));
  EXPECT_EQ(two.heard[0].sent, std::vector<std::uint32_t>{1});
}

// Both ranks dial, and each end of a connection is proven by itself. A peer may send on a connection that is not proven
// here yet, and be gone when this rank looks again.
TEST(TcpTransport, WhatAPeerSentOnAConnectionInTheMakingArrives) {
  constexpr std::uint32_t kSlots = 4;
  const std::vector<std::byte> data(10'000, std::byte{7});  // long enough to go by any connection, and all fit into one
  const auto drive = [](TcpTransport& transport) {
    for (const auto until = Deadline::After(Deadline::Milliseconds(20)); !until.Passed();) transport.Advance();
  };
  for (int looks = 0; looks < 12; ++looks) {
    TransportsApart<2> two;
    auto& [stays, leaves] = two.transports;
    leaves->Hurry(0);
    const auto give_up = Deadline::After(kAmple);
    while (leaves->Room(0) == 0 && !give_up.Passed()) leaves->Advance();
    two.Say(1, 0, "so that this connection is looked at first");
    stays->Connect(1);
    for (int look = 0; look < looks; ++look) {
      stays->Advance();
      drive(*leaves);
    }
    for (std::uint32_t number = 1; number <= kSlots; ++number) {
      leaves->Send(0, {.connection = 1, .number = number, .tag = 1, .bytes = static_cast<std::uint32_t>(data.size())},
                   data.data());
      leaves->Flush(0);
    }
    while (!leaves->Delivered(0) && !give_up.Passed()) leaves->Advance();
    leaves.reset();
    ASSERT_TRUE(two.Until([&] { return !two.heard[0].broken.empty(); }));
    EXPECT_EQ(two.heard[0].order.size(), kSlots) << "after " << looks << " looks";
  }
}

// The higher rank calls a lower one that is late, by one connection. The late one makes the others, whether it has looked
// at that call or not.
TEST(TcpTransport, ALateRankMakesTheConnectionsThatAreMissing) {
  constexpr int kSockets = 3;
  for (const bool looks : {false, true}) {
    TransportsApart<2> two(kSockets);
    auto& [late, waits] = two.transports;
    waits->Hurry(0);
    const auto give_up = Deadline::After(kAmple);
    while (waits->Room(0) == 0 && !give_up.Passed()) waits->Advance();
    ASSERT_TRUE(!looks || two.Until([&] { return late->Room(1) > 0; }));
    late->Connect(1);
    const auto of_both = [&] { return two.heard[0].connections + two.heard[1].connections; };
    EXPECT_TRUE(two.Until([&] { return of_both() >= 2 * kSockets; }));
    const auto later = Deadline::After(Deadline::Milliseconds(50));
    two.Until([&] { return later.Passed(); });
    EXPECT_EQ(of_both(), 2 * kSockets) << looks;
  }
}

// A failed rank gives its caller the memory back that a peer has not taken yet: the system may still read it in place, or
// has not been given all of it.
TEST(TcpTransport, NothingReadsSlotsOfAnAbandonedPeer) {
  TransportsOf<2> two;
  auto& [fails, busy] = two.transports;
  constexpr std::byte kSent{7}, kForeign{8};
  std::vector<std::byte> data(1024 * 1024, kSent);
  std::uint32_t number = 0;
  // The peer does not look, so the buffers of both systems fill up.
  while (fails->Room(1) > 0) {
    fails->Send(1, {.connection = 1, .number = ++number, .tag = 1, .bytes = static_cast<std::uint32_t>(data.size())},
                data.data());
    fails->Flush(1);
  }
  ASSERT_LT(two.heard[0].sent.size(), number);
  fails->Abandon(1);
  EXPECT_NE(two.heard[0].broken, "");
  std::ranges::fill(data, kForeign);
  ASSERT_TRUE(two.Until([&] { return !two.heard[1].broken.empty(); }));
  EXPECT_LT(two.heard[1].order.size(), number);
  for (const auto landed : two.heard[1].order) {
    EXPECT_EQ(two.heard[1].TextOf(landed).find(static_cast<char>(kForeign)), std::string::npos) << "slot " << landed;
  }
}

// A caller that asks rarely hears from all peers, whichever sent last.
TEST(TcpTransport, AllAreHeardThoughOneIsLikely) {
  TransportsOf<3> three;
  for (int i = 0; i < 8; ++i) {
    auto& texts = three.heard[0].texts;
    texts.clear();
    three.Say(1, 0, "the likely one");
    ASSERT_TRUE(three.Until([&] { return texts.size() == 1; }));
    three.Say(2, 0, "the other");
    pollfd waiting{three.transports[0]->descriptor(), POLLIN, 0};
    ASSERT_EQ(net::Wait({&waiting, 1}, Deadline::After(kAmple)), net::Wake::event);
    three.transports[0]->AdvanceAll();
    EXPECT_EQ(texts.size(), 2u);
  }
}

}  // namespace
}  // namespace tutti::tcp
