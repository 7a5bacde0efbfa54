#include "transports/progress/range_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

namespace tutti::progress {
namespace {

TEST(RangesOfMemory, TheRangeThatHoldsAllBytes) {
  std::array<std::byte, 100> memory;
  RangeMap<int> map;
  const auto* const begin = memory.data();
  EXPECT_EQ(map.Holding(begin, 1), nullptr);
  map.Add(begin + 10, 50, 1);
  map.Add(begin + 20, 5, 2);
  map.Add(begin + 70, 10, 3);
  const auto held_by = [&](std::size_t from, std::size_t bytes) {
    const int* const found = map.Holding(begin + from, bytes);
    return found == nullptr ? 0 : *found;
  };
  EXPECT_EQ(held_by(10, 50), 1);
  EXPECT_EQ(held_by(9, 1), 0);
  EXPECT_EQ(held_by(20, 5), 2);
  EXPECT_EQ(held_by(20, 6), 1);  // the short one before it does not hide the long one
  EXPECT_EQ(held_by(59, 1), 1);
  EXPECT_EQ(held_by(59, 2), 0);
  EXPECT_EQ(held_by(55, 20), 0);  // adjacent ranges are not one
  EXPECT_EQ(held_by(79, 1), 3);
  EXPECT_EQ(held_by(80, 1), 0);
}

TEST(RangesOfMemory, RangesAreCounted) {
  std::array<std::byte, 100> memory;
  RangeMap<int> map;
  map.Add(memory.data(), 10, 1);
  ASSERT_NE(map.Find(memory.data(), 10), nullptr);
  EXPECT_EQ(map.Find(memory.data(), 11), nullptr);
  map.Remove(memory.data(), 10);
  EXPECT_NE(map.Holding(memory.data(), 10), nullptr);
  map.Remove(memory.data(), 11);
  map.Remove(memory.data(), 10);
  EXPECT_EQ(map.Holding(memory.data(), 10), nullptr);
  EXPECT_TRUE(map.empty());
  map.Remove(memory.data(), 10);
}

// Compares with a search of every range.
TEST(RangesOfMemory, AnyRanges) {
  std::array<std::byte, 200> memory;
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    RangeMap<std::pair<std::size_t, std::size_t>> map;
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (int i = 0; i < 8; ++i) {
      const std::size_t from = random() % 150, bytes = 1 + random() % (i == 0 ? 50 : 12);
      if (map.Find(memory.data() + from, bytes) == nullptr) map.Add(memory.data() + from, bytes, {from, bytes});
      ranges.emplace_back(from, bytes);
    }
    for (int i = 0; i < 100; ++i) {
      const std::size_t from = random() % 200, bytes = random() % 10;
      const auto holds = [&](const auto& range) {
        return range.first <= from && from + bytes <= range.first + range.second;
      };
      const auto* const found = map.Holding(memory.data() + from, bytes);
      // An empty range lies anywhere.
      ASSERT_TRUE(bytes == 0 || (found != nullptr) == std::ranges::any_of(ranges, holds)) << from << " " << bytes;
      ASSERT_TRUE(found == nullptr || holds(*found));
    }
  }
}

}  // namespace
}  // namespace tutti::progress
