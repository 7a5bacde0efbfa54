#include "transports/verbs/messages.h"

#include <gtest/gtest.h>

#include <random>

#include "transports/progress/network_transport.h"

namespace tutti::verbs {
namespace {

std::vector<VerbsMessage> Examples() {
  QueuePlace queue{0xabcdef, 0x123456, 17, 5, 1, {}};
  for (std::size_t i = 0; i < queue.gid.size(); ++i) queue.gid[i] = static_cast<std::byte>(i * 17);
  return {VerbsGreeting{{queue}}, VerbsGreeting{std::vector<QueuePlace>(kMostRails, queue)},
          VerbsReady{},           tcp::GaveUp{"mlx5_0 port 1: gone"},
          tcp::GaveUp{},          tcp::Forwarded{std::vector<std::byte>(77, std::byte{7})},
          RingWanted{47},         RingPlace{47, 0x7f00'0000'1000, 1 << 20, {1, 2, 3, 4}}};
}

TEST(VerbsMessages, ComeBackAsTheyWere) {
  for (const auto& message : Examples()) {
    const auto bytes = Encode(message);
    EXPECT_LE(bytes.size(), progress::kMaxControlBytes);
    const auto decoded = DecodeVerbsMessage(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, message);
  }
}

TEST(VerbsMessages, LongReasonsAreCut) {
  const auto bytes = Encode(tcp::GaveUp{std::string(100'000, 'x')});
  ASSERT_LE(bytes.size(), progress::kMaxControlBytes);
  EXPECT_GE(std::get<tcp::GaveUp>(*DecodeVerbsMessage(bytes)).why.size(), 100U);
}

TEST(VerbsMessages, DamagedOnesAreRefusedOrOthers) {
  EXPECT_FALSE(DecodeVerbsMessage({}));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(VerbsGreeting{})));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(VerbsGreeting{std::vector<QueuePlace>(kMostRails + 1)})));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(RingPlace{1, 2, 3, {}})));
  std::mt19937 random(7);
  for (const auto& message : Examples()) {
    const auto whole = Encode(message);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto cut = DecodeVerbsMessage(std::span(whole).first(size));
      // A forwarded message may have any length.
      if (cut) {
        EXPECT_TRUE(std::holds_alternative<tcp::Forwarded>(*cut)) << size;
      }
    }
    auto longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_TRUE(!DecodeVerbsMessage(longer) || std::holds_alternative<tcp::Forwarded>(message));
    for (int i = 0; i < 2000; ++i) {
      auto bytes = whole;
      for (int change = 0; change < 3; ++change) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      if (const auto decoded = DecodeVerbsMessage(bytes)) {
        EXPECT_EQ(Encode(*decoded), bytes);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::verbs
