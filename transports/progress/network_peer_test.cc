#include "transports/progress/network_peer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "base/all_gather.h"
#include "transports/ring/slot_arithmetic.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::progress {
namespace {

TEST(OutgoingRing, TakesNewsOfEmptiedSlotsInAnyOrder) {
  constexpr ring::SlotShape kShape = ring::kLineShape;
  constexpr std::uint32_t kTag = 7, kSlots = 5;
  alignas(ring::kCacheLine) std::array<std::byte, std::size_t{kShape.stride} * kShape.depth> slots{};
  std::atomic<std::uint32_t> head = 0;
  OutgoingRing ring(slots.data(), kShape, &head);
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
  OutgoingRing ring(slots.data(), kShape, &sent);
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
  OutgoingRing ring(slots.data(), kShape, &sent);
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
  IncomingRing ring_{slots_.data(), kShape, &emptied_};
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

// Each message takes the connection with the shortest queue, so one may overtake another that was sent earlier.
TEST(NetworkPeer, OlderWordsThatArriveLaterChangeNothing) {
  const auto thrown = shm::RunThreadRanks(2, [&](int rank, const AllGather& all_gather) {
    shm::Fabric fabric(rank, shm::Hosts{{0, 1}, {0, 1}}, 1, Settings{}, all_gather,
                       Deadline::After(std::chrono::seconds(60)));
    if (rank == 0) {
      NetworkPeer peer(fabric, 1);
      const auto take = [&](const NetworkMessage& message) { return peer.Take(message); };
      const auto completed = [&] { return peer.shadow().completed.load(); };
      const auto status = [](std::uint64_t index, std::uint64_t done) {
        return Status{.index = index, .operation = {}, .started = done, .completed = done, .mark = 0};
      };
      EXPECT_TRUE(take(status(1, 1)));
      EXPECT_TRUE(take(status(1, 0)));
      EXPECT_EQ(completed(), 1U);
      EXPECT_TRUE(take(Leaving{2}));
      EXPECT_TRUE(take(status(2, 1)));
      EXPECT_EQ(completed(), 2U);
      EXPECT_EQ(peer.shadow().state.load(), ring::RankState::left);
    }
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(2));
}

}  // namespace
}  // namespace tutti::progress
