#include "transports/plugin/messages.h"

#include <gtest/gtest.h>

#include <span>

namespace tutti::plugin {
namespace {

Greeting AGreeting() {
  Greeting greeting{0x1122334455667788, std::uint64_t{1} << 20, {}};
  for (std::size_t line = 0; line < kLines; ++line) {
    for (std::size_t i = 0; i < greeting.handles[line].size(); ++i)
      greeting.handles[line][i] = static_cast<std::byte>(line * 131 + i);
  }
  return greeting;
}

TEST(PluginGreeting, ComesBackAsItWas) {
  const auto bytes = Encode(AGreeting());
  EXPECT_LT(bytes.size(), progress::kMaxControlBytes);
  const auto back = DecodeGreeting(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, AGreeting());
}

TEST(PluginGreeting, WhatIsCutOrTooLongIsRefused) {
  auto bytes = Encode(AGreeting());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeGreeting(std::span(bytes).first(length))) << length;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(DecodeGreeting(bytes));
}

TEST(PluginGreeting, NonsenseIsRefused) {
  // Pieces that no message fits into, or that are larger than any piece.
  for (const std::uint64_t piece :
       {std::uint64_t{0}, std::uint64_t{kMessageBytes - 1}, std::uint64_t{kMostPiece + 1}}) {
    auto greeting = AGreeting();
    greeting.piece = piece;
    EXPECT_FALSE(DecodeGreeting(Encode(greeting))) << piece;
  }
}

}  // namespace
}  // namespace tutti::plugin
