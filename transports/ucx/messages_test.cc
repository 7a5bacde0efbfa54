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

std::vector<UcxMessage> Examples() {
  return {UcxGreeting{0x0123456789abcdef, 500, Bytes(500)},
          UcxGreeting{~std::uint64_t{0}, UcxGreeting::kMostAddress, Bytes(UcxGreeting::kMostPart)},
          UcxLeaving{std::uint64_t{1} << 40},
          UcxHeard{},
          UcxForwarded{~std::uint32_t{0}, {Bytes(77)}},
          UcxForwarded{},
          tcp::GaveUp{"Connection reset by remote peer"}};
}

TEST(UcxMessages, ComeBackAsTheyWere) {
  for (const auto& message : Examples()) {
    const auto bytes = Encode(message);
    EXPECT_LE(bytes.size(), progress::kMaxControlBytes);
    const auto decoded = DecodeUcxMessage(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, message);
  }
}

TEST(UcxMessages, DamagedOnesAreRefused) {
  EXPECT_FALSE(DecodeUcxMessage({}));
  EXPECT_FALSE(DecodeUcxMessage(Bytes(1)));
  EXPECT_FALSE(DecodeUcxMessage(Encode(UcxGreeting{1, 10, {}})));
  EXPECT_FALSE(DecodeUcxMessage(Encode(UcxGreeting{1, 10, Bytes(11)})));
  EXPECT_FALSE(DecodeUcxMessage(Encode(UcxGreeting{1, UcxGreeting::kMostAddress + 1, Bytes(11)})));
  EXPECT_FALSE(DecodeUcxMessage(Encode(UcxGreeting{1, 100'000, Bytes(UcxGreeting::kMostPart + 1)})));
  for (const auto& message : {UcxMessage(UcxLeaving{7}), UcxMessage(UcxHeard{}), UcxMessage(tcp::GaveUp{"why"})}) {
    auto bytes = Encode(message);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(DecodeUcxMessage(bytes));
    bytes.resize(bytes.size() - 2);
    EXPECT_FALSE(DecodeUcxMessage(bytes));
  }
}

TEST(UcxMessages, AddressesOfAnyLengthTravelInParts) {
  for (const std::size_t size :
       {std::size_t{1}, UcxGreeting::kMostPart, UcxGreeting::kMostPart + 1, std::size_t{UcxGreeting::kMostAddress}}) {
    const auto address = Bytes(size);
    std::vector<std::byte> together;
    for (const auto& greeting : GreetingsOf(5, address)) {
      const auto decoded = DecodeUcxMessage(Encode(greeting));
      ASSERT_TRUE(decoded);
      const auto& part = std::get<UcxGreeting>(*decoded);
      EXPECT_EQ(part.token, 5U);
      EXPECT_EQ(part.bytes, size);
      together.insert(together.end(), part.part.begin(), part.part.end());
    }
    EXPECT_EQ(together, address);
  }
}

}  // namespace
}  // namespace tutti::ucx
