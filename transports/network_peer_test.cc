#include "transports/network_peer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "transports/slot_arithmetic.h"

namespace tutti {
namespace {

TEST(OutgoingRing, TakesNewsOfEmptiedSlotsInAnyOrder) {
  constexpr SlotShape kShape = kLineShape;
  constexpr std::uint32_t kTag = 7, kSlots = 5;
  alignas(kCacheLine) std::array<std::byte, std::size_t{kShape.stride} * kShape.depth> slots{};
  std::atomic<std::uint32_t> head = 0;
  OutgoingRing ring(slots.data(), kShape, &head);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    auto& header = *reinterpret_cast<SlotHeader*>(slots.data() + std::size_t{i} * kShape.stride);
    header.flag.store(SlotFlag(i + 1, kTag));
    ASSERT_TRUE(ring.Filled());
    const std::byte* data = nullptr;
    EXPECT_EQ(ring.Take(0, data).number, i + 1);
  }
  EXPECT_TRUE(ring.Acknowledge(3));
  // Sent before that, but on another stream.
  EXPECT_TRUE(ring.Acknowledge(1));
  EXPECT_TRUE(ring.Acknowledge(3));
  EXPECT_FALSE(ring.Acknowledge(kSlots + 1));
  EXPECT_TRUE(ring.Acknowledge(kSlots));
}

}  // namespace
}  // namespace tutti
