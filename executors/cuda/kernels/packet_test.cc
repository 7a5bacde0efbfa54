#include "executors/cuda/kernels/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "transports/cuda/layout.h"

namespace tutti::cuda_kernels {
namespace {

static_assert(cuda_transport::kDeviceLineDepth <= kMostPacketSlots, "every slot of a ring is renewed");

TEST(Packets, NumbersAreNeverThatOfFreshMemory) {
  for (const std::uint32_t count : {0U, 1U, (1U << 31) - 1, 1U << 31, ~0U}) EXPECT_NE(PacketNumber(count), 0U);
}

TEST(Packets, RenewalsAreRareAndBeforeEveryWrap) {
  EXPECT_FALSE(RenewsSlot(PacketNumber(0)));
  EXPECT_FALSE(RenewsSlot(PacketNumber(100'000)));
  for (const std::uint32_t wrap : {0U, 1U << 31}) {
    for (const std::uint32_t period : {0U, 1U}) {
      const std::uint32_t first = wrap + (1U << 29) + period * kRenewalPeriod;
      EXPECT_FALSE(RenewsSlot(PacketNumber(first - 1)));
      for (std::uint32_t i = 0; i < kMostPacketSlots; ++i) EXPECT_TRUE(RenewsSlot(PacketNumber(first + i)));
      EXPECT_FALSE(RenewsSlot(PacketNumber(first + kMostPacketSlots)));
    }
  }
}

// A ring whose numbers repeat after 512 slots instead of 2^31, and whose slots are renewed in the same proportion. No
// packet that a reader waits for is there before its filler has written it.
TEST(Packets, OldOnesNeverPassForNew) {
  constexpr std::uint32_t kPeriod = 256, kDepth = 8, kNumbers = 2 * kPeriod, kPackets = 16;
  for (const bool renews : {true, false}) {
    std::vector<std::vector<std::uint32_t>> slots(kDepth, std::vector<std::uint32_t>(kPackets, 0));
    std::mt19937 random(5);
    int mistaken = 0;
    for (std::uint32_t count = 1; count < 20'000; ++count) {
      const std::uint32_t number = PacketNumber(count % kNumbers);
      auto& slot = slots[(count - 1) % kDepth];
      mistaken += static_cast<int>(std::count(slot.begin(), slot.end(), number));
      // Mostly short messages.
      std::size_t packets = random() % 100 == 0 ? kPackets : 1 + random() % 2;
      if (renews && RenewsSlot(number, kPeriod)) packets = kPackets;
      std::fill_n(slot.begin(), packets, number);
    }
    EXPECT_EQ(mistaken > 0, !renews);
  }
}

}  // namespace
}  // namespace tutti::cuda_kernels
