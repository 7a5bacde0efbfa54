#include "transports/ucx/arrivals.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::ucx {
namespace {

constexpr int kPeer = 3;

// Records events: m and a message's byte, s and a slot's number.
class Listener final : public progress::NetworkTransportEvents {
 public:
  void Connected(int /*peer*/) override {}
  std::byte* Landing(int /*peer*/, const progress::SlotMessage& /*message*/) override { return nullptr; }
  void Landed(int peer, const progress::SlotMessage& message) override {
    EXPECT_EQ(peer, kPeer);
    heard += fmt::format("s{} ", message.number);
  }
  void Sent(int /*peer*/, std::uint32_t /*connection*/, std::uint32_t /*number*/) override {}
  bool Control(int peer, std::span<const std::byte> message) override {
    EXPECT_EQ(peer, kPeer);
    heard += fmt::format("m{} ", static_cast<int>(message.front()));
    return message.front() != std::byte{255};
  }
  void Broken(int /*peer*/, const std::string& /*why*/) override {}

  std::string heard;
};

struct Scene {
  Listener listener;
  UcxArrivals arrivals{kPeer, listener};

  bool Message(std::uint32_t before, int byte) {
    const std::vector<std::byte> bytes{static_cast<std::byte>(byte)};
    return arrivals.Message(before, bytes);
  }
  void Slot(std::uint32_t before, std::uint32_t number) { arrivals.Slot(before, {0, number, 0, 0}); }
};

TEST(UcxArrivals, WhatComesInOrderIsHandedOnAtOnce) {
  Scene scene;
  scene.Slot(0, 1);
  EXPECT_TRUE(scene.Message(0, 1));
  scene.Slot(1, 2);
  EXPECT_TRUE(scene.Message(1, 2));
  EXPECT_EQ(scene.listener.heard, "s1 m1 s2 m2 ");
  EXPECT_EQ(scene.arrivals.handed_on(), 4U);
}

TEST(UcxArrivals, SlotsWaitForTheMessagesAheadOfThem) {
  Scene scene;
  scene.Slot(2, 7);
  scene.Slot(1, 6);
  EXPECT_EQ(scene.listener.heard, "");
  EXPECT_EQ(scene.arrivals.handed_on(), 0U);
  EXPECT_TRUE(scene.Message(0, 1));
  EXPECT_EQ(scene.listener.heard, "m1 s6 ");
  EXPECT_TRUE(scene.Message(1, 2));
  EXPECT_EQ(scene.listener.heard, "m1 s6 m2 s7 ");
}

TEST(UcxArrivals, MessagesMayOvertakeEachOtherOnTheWay) {
  Scene scene;
  EXPECT_TRUE(scene.Message(2, 3));
  EXPECT_TRUE(scene.Message(1, 2));
  scene.Slot(3, 9);
  EXPECT_EQ(scene.listener.heard, "");
  EXPECT_TRUE(scene.Message(0, 1));
  EXPECT_EQ(scene.listener.heard, "m1 m2 m3 s9 ");
  EXPECT_EQ(scene.arrivals.handed_on(), 4U);
}

TEST(UcxArrivals, SlotsMayBeLate) {
  Scene scene;
  EXPECT_TRUE(scene.Message(0, 1));
  EXPECT_TRUE(scene.Message(1, 2));
  scene.Slot(0, 4);
  EXPECT_EQ(scene.listener.heard, "m1 m2 s4 ");
}

TEST(UcxArrivals, NonsenseIsNoticed) {
  Scene scene;
  EXPECT_TRUE(scene.Message(0, 1));
  EXPECT_FALSE(scene.Message(0, 1)) << "the same again";
  EXPECT_FALSE(scene.Message(1, 255)) << "not to be understood";
  Scene flood;
  bool fine = true;
  for (std::uint32_t i = 1; i < 100'000 && fine; ++i) fine = flood.Message(i, 1);
  EXPECT_FALSE(fine);
}

}  // namespace
}  // namespace tutti::ucx
