#include "transports/progress/network_rings.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>

namespace tutti::progress {
namespace {

TEST(OutgoingRing, TakesNewsOfEmptiedSlotsInAnyOrder) {
  constexpr ring::SlotShape kShape = ring::kLineShape;
  constexpr std::uint32_t kTag = 7, kSlots = 5;
  alignas(ring::kCacheLine) std::array<std::byte, std::size_t{kShape.stride} * kShape.depth> slots{};
  std::atomic<std::uint32_t> head = 0;
  OutgoingRing ring({slots.data(), kShape}, &head);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    auto& header = *reinterpret_cast<ring::SlotHeader*>(slots.data() + std::size_t{i} * kShape.stride);
    header.flag.store(ring::SlotFlag(i + 1, kTag));
    ASSERT_TRUE(ring.Filled());
    const std::byte* data = nullptr;
    EXPECT_EQ(ring.Take(0, data).number, i + 1);
  }
  EXPECT_TRUE(ring.Acknowledge(3));
  // An older count, delayed on another stream.
  EXPECT_TRUE(ring.Acknowledge(1));
  EXPECT_TRUE(ring.Acknowledge(3));
  EXPECT_FALSE(ring.Acknowledge(kSlots + 1));
  EXPECT_TRUE(ring.Acknowledge(kSlots));
}

// A peer that left has all that it needs, even if the system has not confirmed a slot that it reads in place.
TEST(OutgoingRing, NothingThatWasTakenIsWaitedForWhenThePeerHasLeft) {
  constexpr ring::SlotShape kShape = ring::kLineShape;
  alignas(ring::kCacheLine) std::array<std::byte, std::size_t{kShape.stride} * kShape.depth> slots{};
  std::atomic<std::uint32_t> sent = 0;
  OutgoingRing ring({slots.data(), kShape}, &sent);
  for (std::uint32_t number = 1; number <= 3; ++number) {
    auto& header = *reinterpret_cast<ring::SlotHeader*>(slots.data() + std::size_t{number - 1} * kShape.stride);
    header.flag.store(ring::SlotFlag(number, 7));
    const std::byte* data = nullptr;
    ring.Take(0, data);
  }
  ring.Sent(2);
  EXPECT_EQ(sent.load(), 0U);
  ring.AllSent();
  EXPECT_EQ(sent.load(), 3U);
}

TEST(OutgoingRing, LendsWhatASlotRefersToUntilThatSlotIsSent) {
  constexpr ring::SlotShape kShape = ring::BulkShape(64, 4);
  alignas(ring::kCacheLine) std::array<std::byte, std::size_t{kShape.stride} * kShape.depth> slots{};
  std::atomic<std::uint32_t> sent = 0;
  OutgoingRing ring({slots.data(), kShape}, &sent);
  const std::array kinds = {ring::SlotKind::value, ring::SlotKind::pointer, ring::SlotKind::value};
  for (std::uint32_t i = 0; i < kinds.size(); ++i) {
    auto& header = *reinterpret_cast<ring::SlotHeader*>(slots.data() + std::size_t{i} * kShape.stride);
    header.kind = kinds[i];
    header.flag.store(ring::SlotFlag(i + 1, 7));
    EXPECT_EQ(ring.NextRefers(), kinds[i] == ring::SlotKind::pointer);
    const std::byte* data = nullptr;
    ring.Take(0, data);
    EXPECT_EQ(ring.Lends(), i >= 1);
  }
  ring.Sent(3);
  EXPECT_TRUE(ring.Lends());
  ring.Sent(2);  // out of order
  EXPECT_FALSE(ring.Lends());
  ring.Sent(1);
  EXPECT_FALSE(ring.Lends());
}

// A ring that the network fills, whose slots a call reads.
class Incoming : public ::testing::Test {
 protected:
  static constexpr ring::SlotShape kShape = ring::BulkShape(64, 4);
  static constexpr std::uint32_t kTag = 7, kBytes = 48;

  static SlotMessage Slot(std::uint32_t number) { return {0, number, kTag, kBytes}; }
  const ring::SlotHeader& HeaderOf(std::uint32_t number) const {
    return *reinterpret_cast<const ring::SlotHeader*>(slots_.data() + std::size_t{number - 1} * kShape.stride);
  }
  std::byte* DataOf(std::uint32_t number) {
    return slots_.data() + std::size_t{number - 1} * kShape.stride + kShape.data_offset;
  }

  alignas(ring::kCacheLine) std::array<std::byte, std::size_t{kShape.stride} * kShape.depth> slots_{};
  std::atomic<std::uint32_t> emptied_ = 0;
  IncomingRing ring_{{slots_.data(), kShape}, &emptied_};
  std::array<std::byte, kBytes> wanted_{};
};

TEST_F(Incoming, LandsWhereACallExpectsIt) {
  ring_.Expect(Slot(2), wanted_.data());
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), DataOf(1));
  EXPECT_FALSE(ring_.Borrows());
  EXPECT_EQ(ring_.LandingInPlace(Slot(2)), wanted_.data());
  EXPECT_TRUE(ring_.Borrows());
  ring_.Expect(Slot(2), wanted_.data());  // once more, as a call that looks again does
  ring_.Landed(Slot(1));
  ring_.Landed(Slot(2));
  EXPECT_FALSE(ring_.Borrows());
  EXPECT_EQ(HeaderOf(1).kind, ring::SlotKind::value);
  EXPECT_EQ(HeaderOf(2).kind, ring::SlotKind::pointer);
  EXPECT_EQ(HeaderOf(2).address, reinterpret_cast<std::uint64_t>(wanted_.data()));
}

TEST_F(Incoming, LandsInItsSlotWhatIsOnItsWayBeforeItIsExpected) {
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), DataOf(1));
  ring_.Expect(Slot(1), wanted_.data());
  EXPECT_FALSE(ring_.Borrows());
  ring_.Landed(Slot(1));
  EXPECT_EQ(HeaderOf(1).kind, ring::SlotKind::value);
}

TEST_F(Incoming, KeepsAnotherOperationsDataFromTheCallsMemory) {
  ring_.Expect(Slot(1), wanted_.data());
  ring_.Expect(Slot(2), wanted_.data());
  EXPECT_EQ(ring_.LandingInPlace({0, 1, kTag + 1, kBytes}), DataOf(1));
  EXPECT_EQ(ring_.LandingInPlace({0, 2, kTag, kBytes - 1}), DataOf(2));
  EXPECT_FALSE(ring_.Borrows());
}

// The second one's data could arrive when the call has ended and has its memory back.
TEST_F(Incoming, TakesNoSlotTwice) {
  ring_.Expect(Slot(1), wanted_.data());
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), wanted_.data());
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), nullptr);
  EXPECT_EQ(ring_.LandingInPlace({0, 1, kTag + 1, kBytes}), nullptr) << "of another operation";
  EXPECT_TRUE(ring_.Borrows());
  ring_.Landed(Slot(1));
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), nullptr);
}

TEST_F(Incoming, TakesNoSlotTwiceThatIsExpectedInBetween) {
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), DataOf(1));
  ring_.Expect(Slot(1), wanted_.data());
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), nullptr);
  ring_.Landed(Slot(1));
  ring_.Expect(Slot(1), wanted_.data());
  EXPECT_EQ(ring_.LandingInPlace(Slot(1)), nullptr);
  EXPECT_FALSE(ring_.Borrows());
}

TEST_F(Incoming, GoesOnAfterOneRound) {
  for (std::uint32_t number = 1; number <= 3 * kShape.depth; ++number) {
    if (number % 2 == 0) ring_.Expect(Slot(number), wanted_.data());
    EXPECT_EQ(ring_.LandingInPlace(Slot(number)) == wanted_.data(), number % 2 == 0) << number;
    ring_.Landed(Slot(number));
    emptied_ = number;
  }
}

// Rings of four slots whose receiver keeps more of them outside.
class RunAhead : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kCapacity = 64 * 64, kShort = kCapacity / 4, kTag = 7;
  static constexpr ring::SlotShape kShape = ring::BulkShape(kCapacity, 4);
  using Slots = std::array<std::byte, std::size_t{kShape.stride} * kShape.depth>;

  RunAhead() {
    out_.AllowRunAhead();
    in_.AllowRunAhead();
  }

  static ring::SlotHeader& HeaderOf(Slots& slots, std::uint32_t number) {
    return *reinterpret_cast<ring::SlotHeader*>(slots.data() +
                                                std::size_t{(number - 1) % kShape.depth} * kShape.stride);
  }
  // Fills slots of `bytes` while they may go, each sent at once. Returns how many.
  std::uint32_t FillAll(std::uint32_t bytes) {
    for (std::uint32_t filled = 0;; ++filled) {
      auto& header = HeaderOf(outgoing_, ++number_);
      header.bytes = bytes;
      header.flag.store(ring::SlotFlag(number_, kTag));
      if (!out_.MayGo()) return --number_, filled;
      const std::byte* data = nullptr;
      out_.Take(0, data);
      out_.Sent(number_);
    }
  }
  void Land(std::uint32_t number, std::uint32_t bytes = kShort) {
    auto* const at = in_.LandingInPlace({0, number, kTag, bytes});
    ASSERT_NE(at, nullptr) << number;
    std::memset(at, static_cast<int>(number), bytes);
    in_.Landed({0, number, kTag, bytes});
  }
  // Whether the emptier sees the slot, with its data.
  bool Shows(std::uint32_t number) {
    const auto& header = HeaderOf(incoming_, number);
    if (header.flag.load() != ring::SlotFlag(number, kTag)) return false;
    const auto* const data = header.kind == ring::SlotKind::pointer
                                 ? reinterpret_cast<const std::byte*>(header.address)
                                 : reinterpret_cast<const std::byte*>(&header) + kShape.data_offset;
    return *data == std::byte(number);
  }

  alignas(ring::kCacheLine) Slots outgoing_{}, incoming_{};
  std::atomic<std::uint32_t> sent_ = 0, emptied_ = 0;
  OutgoingRing out_{{outgoing_.data(), kShape}, &sent_};
  IncomingRing in_{{incoming_.data(), kShape}, &emptied_};
  std::uint32_t number_ = 0;
};

TEST_F(RunAhead, SixteenShortSlotsGoBeforeOneIsEmptied) {
  EXPECT_EQ(FillAll(kShort), kRunAhead);
  EXPECT_TRUE(out_.Acknowledge(3));
  EXPECT_EQ(FillAll(kShort), 3U);
}

TEST_F(RunAhead, FourLongSlotsGoBeforeOneIsEmptied) {
  EXPECT_EQ(FillAll(kCapacity), kShape.depth);
  EXPECT_EQ(FillAll(0), 0U);
  EXPECT_TRUE(out_.Acknowledge(1));
  EXPECT_EQ(FillAll(kShort), 4U);
}

TEST_F(RunAhead, SlotsBeyondTheRingAreShownWhenItHasRoom) {
  for (std::uint32_t number = 1; number <= kRunAhead; ++number) Land(number);
  EXPECT_EQ(in_.LandingInPlace({0, kRunAhead + 1, kTag, kShort}), nullptr) << "more than the window";
  for (std::uint32_t number = 1; number <= 100; ++number) {
    ASSERT_TRUE(Shows(number)) << number;
    emptied_ = number;
    EXPECT_TRUE(in_.ShowKept()) << number;
    Land(number + kRunAhead);
  }
  for (std::uint32_t number = 101; number <= 100 + kRunAhead; ++number) {
    ASSERT_TRUE(Shows(number)) << number;
    emptied_ = number;
    EXPECT_EQ(in_.ShowKept(), number + kShape.depth <= 100 + kRunAhead) << number;
  }
  EXPECT_FALSE(in_.keeps());
}

TEST_F(RunAhead, SlotsBeyondTheRingMayLandInAnyOrder) {
  for (const std::uint32_t number : {7, 5, 1, 6, 3, 2, 4}) Land(number);
  EXPECT_FALSE(in_.ShowKept());
  emptied_ = 2;
  EXPECT_TRUE(in_.ShowKept());
  for (const std::uint32_t number : {3, 4, 5, 6}) EXPECT_TRUE(Shows(number)) << number;
  EXPECT_TRUE(in_.keeps());
  emptied_ = 3;
  EXPECT_TRUE(in_.ShowKept());
  EXPECT_TRUE(Shows(7));
  EXPECT_FALSE(in_.keeps());
}

TEST_F(RunAhead, LandsWhereACallExpectsItBeyondTheRing) {
  std::array<std::byte, kShort> wanted{};
  in_.Expect({0, 6, kTag, kShort}, wanted.data());
  for (std::uint32_t number = 1; number <= 6; ++number) Land(number);
  EXPECT_FALSE(in_.Borrows());
  emptied_ = 2;
  EXPECT_TRUE(in_.ShowKept());
  EXPECT_TRUE(Shows(6));
  EXPECT_EQ(HeaderOf(incoming_, 6).address, reinterpret_cast<std::uint64_t>(wanted.data()));
}

TEST_F(RunAhead, NothingLandsWhereAFailedCallExpectedIt) {
  std::array<std::byte, kShort> wanted{};
  in_.Expect({0, 1, kTag, kShort}, wanted.data());
  in_.ForgetExpected();
  Land(1);
  EXPECT_EQ(HeaderOf(incoming_, 1).kind, ring::SlotKind::value);
}

// Whatever the slots' length, the sender has waited for no credit that the receiver holds back.
TEST_F(RunAhead, EmptiedSlotsAreWorthTellingBeforeTheSenderWaits) {
  for (const std::uint32_t bytes : {kShort, 2 * kShort, 3 * kShort, kCapacity}) {
    const auto before = number_;
    const auto filled = FillAll(bytes);
    for (std::uint32_t i = 1; i <= filled; ++i) Land(before + i, bytes);
    emptied_ = number_;
    in_.ShowKept();
    EXPECT_GE(in_.news(), in_.credits() / 2) << bytes;
    EXPECT_TRUE(out_.Acknowledge(in_.Tell()));
  }
}

TEST(DataApart, LieElsewhere) {
  constexpr ring::SlotShape kHeaders{64, 4, 64, 256};
  constexpr std::uint32_t kStride = 320, kTag = 7;
  alignas(ring::kCacheLine) std::array<std::byte, std::size_t{kHeaders.stride} * kHeaders.depth> slots{};
  std::array<std::byte, std::size_t{kStride} * kHeaders.depth> data{};
  const RingMemory memory{slots.data(), kHeaders, {data.data(), kStride, data.size()}};
  EXPECT_EQ(memory.bytes(), slots.size());

  std::atomic<std::uint32_t> emptied = 0;
  IncomingRing in(memory, &emptied);
  for (std::uint32_t number = 1; number <= 6; ++number) {
    const SlotMessage message{3, number, kTag, 200};
    const std::size_t index = (number - 1) % kHeaders.depth;
    const auto& shown = *reinterpret_cast<const ring::SlotHeader*>(slots.data() + index * kHeaders.stride);
    if (number > kHeaders.depth) {
      EXPECT_EQ(in.Landing(message), nullptr) << "the ring is full";
      emptied = number - kHeaders.depth;
    }
    EXPECT_EQ(in.Landing(message), data.data() + index * kStride);
    in.Landed(message);
    EXPECT_EQ(shown.flag.load(), ring::SlotFlag(number, kTag));
    EXPECT_EQ(shown.kind, ring::SlotKind::value);
  }
  EXPECT_EQ(in.Landing({3, 7, kTag, 257}), nullptr) << "longer than a slot";

  std::atomic<std::uint32_t> sent = 0;
  OutgoingRing out(memory, &sent);
  for (std::uint32_t number = 1; number <= 2; ++number) {
    auto& header = *reinterpret_cast<ring::SlotHeader*>(slots.data() + std::size_t{number - 1} * kHeaders.stride);
    header.bytes = 100;
    header.flag.store(ring::SlotFlag(number, kTag));
    const std::byte* from = nullptr;
    EXPECT_EQ(out.Take(3, from), (SlotMessage{3, number, kTag, 100}));
    EXPECT_EQ(from, data.data() + std::size_t{number - 1} * kStride);
  }
}

}  // namespace
}  // namespace tutti::progress
