#include "src/memory/device_buffers.h"

#include <gtest/gtest.h>

namespace tutti::memory {
namespace {

TEST(KnownBuffers, AreAskedForNowAndThen) {
  KnownBuffers known;
  const int one = 1, other = 2;
  EXPECT_TRUE(known.Know(nullptr, nullptr));
  EXPECT_FALSE(known.Know(&one, nullptr));
  known.Remember(&one, nullptr);
  EXPECT_TRUE(known.Know(&one, nullptr));
  EXPECT_FALSE(known.Know(&one, &other + 64));
  std::uint32_t knew = 0;
  for (std::uint32_t i = 0; i < KnownBuffers::kAsksEvery; ++i) knew += known.Know(nullptr, &one) ? 1 : 0;
  EXPECT_EQ(knew, KnownBuffers::kAsksEvery - 1);
}

// Two that share a place take turns.
TEST(KnownBuffers, ForgetsTheOlderOfTwoInOnePlace) {
  KnownBuffers known;
  const auto* const one = reinterpret_cast<const void*>(std::uintptr_t{1} << 20);
  const auto* const other = reinterpret_cast<const void*>(std::uintptr_t{2} << 20);
  known.Remember(one, nullptr);
  known.Remember(other, nullptr);
  EXPECT_FALSE(known.Know(one, nullptr));
  EXPECT_TRUE(known.Know(other, nullptr));
}

}  // namespace
}  // namespace tutti::memory
