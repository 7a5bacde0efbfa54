#include "transports/ucx/messages.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tutti::ucx {
namespace {

std::vector<std::byte> Bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31);
  return bytes;
}

TEST(UcxGreeting, ComesBackAsItWas) {
  for (const auto& greeting :
       {UcxGreeting{0x0123456789abcdef, 500, Bytes(500)},
        UcxGreeting{~std::uint64_t{0}, UcxGreeting::kMostAddress, Bytes(UcxGreeting::kMostPart)}}) {
    const auto bytes = Encode(greeting);
    EXPECT_LT(bytes.size(), progress::kMaxControlBytes);
    const auto decoded = DecodeUcxGreeting(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, greeting);
  }
}

TEST(UcxGreeting, DamagedOnesAreRefused) {
  EXPECT_FALSE(DecodeUcxGreeting({}));
  EXPECT_FALSE(DecodeUcxGreeting(Bytes(11)));
  EXPECT_FALSE(DecodeUcxGreeting(Encode(UcxGreeting{1, 10, {}})));
  EXPECT_FALSE(DecodeUcxGreeting(Encode(UcxGreeting{1, 10, Bytes(11)})));
  EXPECT_FALSE(DecodeUcxGreeting(Encode(UcxGreeting{1, UcxGreeting::kMostAddress + 1, Bytes(11)})));
  EXPECT_FALSE(DecodeUcxGreeting(Encode(UcxGreeting{1, 100'000, Bytes(UcxGreeting::kMostPart + 1)})));
}

TEST(UcxGreeting, AddressesOfAnyLengthTravelInParts) {
  for (const std::size_t size :
       {std::size_t{1}, UcxGreeting::kMostPart, UcxGreeting::kMostPart + 1, std::size_t{UcxGreeting::kMostAddress}}) {
    const auto address = Bytes(size);
    std::vector<std::byte> together;
    for (const auto& greeting : GreetingsOf(5, address)) {
      const auto decoded = DecodeUcxGreeting(Encode(greeting));
      ASSERT_TRUE(decoded);
      EXPECT_EQ(decoded->token, 5U);
      EXPECT_EQ(decoded->bytes, size);
      together.insert(together.end(), decoded->part.begin(), decoded->part.end());
    }
    EXPECT_EQ(together, address);
  }
}

}  // namespace
}  // namespace tutti::ucx
