#include "transports/plugin/messages.h"

#include <gtest/gtest.h>

#include <string>

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

std::vector<SideMessage> OneOfEach() {
  return {AGreeting(), Leaving{77}, Heard{}, tcp::Forwarded{{std::byte{1}, std::byte{2}}},
          tcp::GaveUp{"isend returned 2 (system error)"}};
}

TEST(PluginMessages, ComeBackAsTheyWere) {
  for (const auto& message : OneOfEach()) {
    const auto bytes = Encode(message);
    EXPECT_LE(bytes.size(), progress::kMaxControlBytes);
    const auto back = DecodeSideMessage(bytes);
    ASSERT_TRUE(back) << message.index();
    EXPECT_EQ(*back, message);
  }
}

TEST(PluginMessages, WhatIsCutOrTooLongIsRefused) {
  for (const auto& message : OneOfEach()) {
    auto bytes = Encode(message);
    const bool any_length = std::holds_alternative<tcp::Forwarded>(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const auto back = DecodeSideMessage(std::span(bytes).first(length));
      EXPECT_EQ(back.has_value(), any_length && length > 0) << message.index() << " cut to " << length;
    }
    bytes.push_back(std::byte{0});
    EXPECT_EQ(DecodeSideMessage(bytes).has_value(), any_length) << message.index();
  }
}

TEST(PluginMessages, NonsenseIsRefused) {
  EXPECT_FALSE(DecodeSideMessage({}));
  for (const int kind : {0, 6, 255}) {
    const std::vector<std::byte> bytes{static_cast<std::byte>(kind)};
    EXPECT_FALSE(DecodeSideMessage(bytes)) << kind;
  }
  // Pieces that no message fits into, or that are larger than any piece.
  for (const std::uint64_t piece :
       {std::uint64_t{0}, std::uint64_t{kMessageBytes - 1}, std::uint64_t{kMostPiece + 1}}) {
    auto greeting = AGreeting();
    greeting.piece = piece;
    EXPECT_FALSE(DecodeSideMessage(Encode(greeting))) << piece;
  }
}

}  // namespace
}  // namespace tutti::plugin
