#include "transports/ring/slot_arithmetic.h"

#include <gtest/gtest.h>

#include <set>

namespace tutti::ring {
namespace {

TEST(SlotArithmetic, ChunksCoverABlockOnce) {
  for (const std::size_t chunk_bytes : {std::size_t{1}, std::size_t{64}, std::size_t{4096}}) {
    for (const std::size_t bytes : {0, 1, 63, 64, 65, 4095, 4096, 4097, 100'000}) {
      std::size_t covered = 0;
      for (std::uint32_t chunk = 0; chunk < ChunkCount(bytes, chunk_bytes); ++chunk) {
        EXPECT_EQ(ChunkBegin(chunk, chunk_bytes), covered);
        const auto length = ChunkLength(bytes, chunk, chunk_bytes);
        EXPECT_GT(length, 0u);
        EXPECT_LE(length, chunk_bytes);
        covered += length;
      }
      EXPECT_EQ(covered, bytes);
    }
  }
  EXPECT_EQ(ChunkLength(0, 0, 64), 0u) << "the chunk of an empty block that is done all the same";
}

// A wrap of the counts has no effect.
TEST(SlotArithmetic, CountsWrap) {
  constexpr std::uint32_t kDepth = 8, kLast = ~std::uint32_t{0};
  EXPECT_EQ(SlotIndex(kLast, kDepth) + 1, kDepth);
  EXPECT_EQ(SlotIndex(kLast + 1, kDepth), 0u);
  EXPECT_EQ(FreeSlots(2, kLast - 1, kDepth), 4u);
  EXPECT_EQ(FreeSlots(3, kLast - 4, kDepth), 0u);
}

TEST(SlotArithmetic, FlagsTellSlotsAndOperationsApart) {
  std::set<std::uint64_t> flags;
  for (std::uint32_t number = 1; number < 100; ++number) {
    std::uint64_t digest = 0;
    for (int operation = 0; operation < 100; ++operation) {
      digest = NextDigest(digest, 12345);
      const auto flag = SlotFlag(number, OperationTag(digest));
      EXPECT_EQ(FlagNumber(flag), number);
      EXPECT_TRUE(flags.insert(flag).second);
    }
  }
}

// After one different operation, or one left out, all later digests differ.
TEST(SlotArithmetic, DigestsNeverMeetAgain) {
  constexpr std::uint64_t kUsual = 12345, kOdd = 54321;
  std::uint64_t one = NextDigest(0, kUsual), other = NextDigest(0, kOdd), shorter = 0;
  for (int operation = 0; operation < 100'000; ++operation) {
    EXPECT_NE(one, other);
    EXPECT_NE(one, shorter);
    for (auto* const digest : {&one, &other, &shorter}) *digest = NextDigest(*digest, kUsual);
  }
  EXPECT_NE(NextDigest(NextDigest(0, kUsual), kOdd), NextDigest(NextDigest(0, kOdd), kUsual)) << "order counts";
}

}  // namespace
}  // namespace tutti::ring
