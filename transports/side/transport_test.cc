#include "transports/side/transport.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transports/progress/network_transport_testing.h"

namespace tutti::side {
namespace {

// Means that lose nothing, but deliver only when the test lets them.
struct Mail {
  std::vector<std::vector<std::byte>> on_its_way;
  bool held = false;
};

struct MailSlots {
  std::array<Mail, 2> mail;  // by receiver
};

class MailPeer final : public side::Peer {
 public:
  MailPeer(int rank, const Shared& shared, Mail& to, Mail& from) : side::Peer(rank, shared), to_(to), from_(from) {}

  void Greet() override { Say({std::byte{1}}); }
  bool Hear(std::span<const std::byte> own) override {
    met_ = own.size() == 1;
    for (const auto& message : TakeWaiting()) SendShort(message);
    return met_;
  }
  bool up() const override { return met_ && !down_; }
  bool met() const override { return met_; }
  int Room() const override { return up() && !leaving() ? 1 : 0; }
  void Send(const progress::SlotMessage& /*slot*/, const std::byte* /*data*/) override {}
  void SendShort(std::span<const std::byte> message) override {
    if (up()) ++sent_;
    (up() ? to_.on_its_way : waiting_).emplace_back(message.begin(), message.end());
  }
  std::vector<std::vector<std::byte>> TakeWaiting() override { return std::exchange(waiting_, {}); }
  bool settled() const override { return true; }
  std::uint64_t sent() const override { return sent_; }
  std::uint64_t handed_on() const override { return handed_on_; }

  bool Receive() {
    if (stopped() || from_.held || from_.on_its_way.empty()) return false;
    for (const auto& message : std::exchange(from_.on_its_way, {})) {
      ++handed_on_;
      shared().events.Control(rank(), message);
    }
    return true;
  }
  // Its messages come, but none can go to it any more.
  void CloseThisWay() { down_ = true; }
  void FailNow(std::string why) { Fail(std::move(why)); }

 private:
  Mail& to_;
  Mail& from_;
  bool met_ = false;
  bool down_ = false;
  std::vector<std::vector<std::byte>> waiting_;
  std::uint64_t sent_ = 0;
  std::uint64_t handed_on_ = 0;
};

constexpr Deadline::Milliseconds kPatience{10'000};

class MailTransport final : public side::Transport {
 public:
  MailTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
                const AllGather& all_gather, progress::NetworkTransportEvents& events, std::array<Mail, 2>& mail)
      : side::Transport("mail", rank, peers, key, settings, all_gather, events, kPatience) {
    const int other = 1 - rank;
    Add(std::make_unique<MailPeer>(other, shared(), mail[static_cast<std::size_t>(other)],
                                   mail[static_cast<std::size_t>(rank)]));
  }

  MailPeer& peer() { return static_cast<MailPeer&>(Own(known().front())); }

 private:
  bool Move() override { return peer().Receive(); }
  bool Arm() override { return true; }
};

// Two ranks that have met, or are about to.
class TwoByMail : private MailSlots, public progress::TransportsInThreads<MailTransport, 2> {
 public:
  TwoByMail()
      : progress::TransportsInThreads<MailTransport, 2>(
            [this, key = auth::SecretKey::Random()](int rank, const std::vector<int>& peers,
                                                    const AllGather& all_gather, progress::HeardEvents& events) {
              Settings settings;
              settings.socket_ifname = "lo";
              return std::make_unique<MailTransport>(rank, peers, key, settings, all_gather, events, mail);
            }) {}
  void Meet() {
    transports[0]->Connect(1);
    ASSERT_TRUE(Until([this] { return transports[0]->Room(1) > 0 && transports[1]->Room(0) > 0; }));
  }
  void Hold(std::size_t rank, bool held) { mail[rank].held = held; }
};

TEST(SideTransport, MessagesThatWaitedGoWhenThePeersHaveMet) {
  TwoByMail two;
  two.Say(0, 1, "early");
  two.Meet();
  ASSERT_TRUE(two.Until([&] { return !two.heard[1].texts.empty(); }));
  EXPECT_EQ(two.heard[1].texts.front(), "early");
}

// Rank 0 has sent "last" and is gone. Rank 1 gets it after a while, and only then breaks with rank 0.
void ExpectLastArrives(TwoByMail& two, Deadline::Milliseconds held) {
  const auto a_while = Deadline::After(held);
  two.Until([&] { return a_while.Passed(); });
  EXPECT_EQ(two.heard[1].broken, "");
  two.Hold(1, false);
  ASSERT_TRUE(two.Until([&] { return !two.heard[1].broken.empty(); }));
  EXPECT_EQ(two.heard[1].texts, std::vector<std::string>{"last"});
}

// The channel may show the end of a peer before what it sent arrives.
TEST(SideTransport, WhatAPeerSentBeforeItsEndStillArrives) {
  for (const bool both_ways : {true, false}) {
    TwoByMail two;
    two.Meet();
    two.Hold(1, true);
    if (!both_ways) two.transports[1]->peer().CloseThisWay();
    two.Say(0, 1, "last");
    two.transports[0].reset();
    ExpectLastArrives(two, kLastArrivals / 3);
  }
}

TEST(SideTransport, AnOrderlyLeaverIsDoneWithWhenAllItSentIsHere) {
  TwoByMail two;
  two.Meet();
  two.Hold(1, true);
  two.Say(0, 1, "last");
  two.transports[0]->Close();
  two.Until([&] { return two.transports[1]->Room(0) == 0; });
  EXPECT_FALSE(two.transports[0]->Delivered(1));
  two.transports[0].reset();
  // Longer than what a peer that leaves without a word is given.
  ExpectLastArrives(two, 2 * kLastArrivals);
}

TEST(SideTransport, ALeaverIsConfirmed) {
  TwoByMail two;
  two.Meet();
  two.Say(0, 1, "last");
  two.transports[0]->Close();
  EXPECT_TRUE(two.Until([&] { return two.transports[0]->Delivered(1); }));
}

TEST(SideTransport, TheEndOfAProcessIsABetterReasonThanAFailure) {
  TwoByMail two;
  two.Meet();
  two.transports[1]->peer().FailNow("an obscure number");
  two.transports[1]->Advance();
  EXPECT_EQ(two.heard[1].broken, "");
  two.transports[0].reset();
  ASSERT_TRUE(two.Until([&] { return !two.heard[1].broken.empty(); }));
  EXPECT_TRUE(two.heard[1].broken.starts_with("its connection")) << two.heard[1].broken;
}

// The failed rank may make no further call, or close at once.
TEST(SideTransport, APeerLearnsOfAFailureAtOnce) {
  for (const bool closes : {false, true}) {
    TwoByMail two;
    two.Meet();
    two.transports[1]->peer().FailNow("the cable is out");
    if (closes) {
      two.transports[1]->Close();
    } else {
      two.transports[1]->Advance();
    }
    const auto give_up = Deadline::After(progress::kAmple);
    while (two.heard[0].broken.empty() && !give_up.Passed()) two.transports[0]->Advance();
    EXPECT_EQ(two.heard[0].broken, "it gave up: the cable is out");
  }
}

TEST(SideTransport, APeerLearnsOfAFailure) {
  TwoByMail two;
  two.Meet();
  two.transports[1]->peer().FailNow("the cable is out");
  ASSERT_TRUE(two.Until([&] { return !two.heard[0].broken.empty() && !two.heard[1].broken.empty(); }));
  EXPECT_EQ(two.heard[1].broken, "the cable is out");
  EXPECT_EQ(two.heard[0].broken, "it gave up: the cable is out");
}

}  // namespace
}  // namespace tutti::side
