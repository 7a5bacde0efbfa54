// For tests of decoders.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace tutti::net {

// Changes some bytes of an encoded message, many times: decode(bytes) refuses them, or gives what encode() makes the same
// bytes of.
template <typename Encode, typename Decode>
void ExpectChangedBytesAreRefusedOrOthers(const std::vector<std::byte>& whole, const Encode& encode,
                                          const Decode& decode) {
  constexpr int kTries = 2000, kChanges = 3;
  std::mt19937 random(7);
  for (int i = 0; i < kTries; ++i) {
    auto bytes = whole;
    for (int change = 0; change < kChanges; ++change) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (const auto decoded = decode(bytes)) {
      EXPECT_EQ(encode(*decoded), bytes);
    }
  }
}

}  // namespace tutti::net
