#include "transports/verbs/messages.h"

#include <gtest/gtest.h>

#include "net/wire_testing.h"
#include "transports/progress/network_transport.h"

namespace tutti::verbs {
namespace {

std::vector<VerbsMessage> Examples() {
  QueuePlace queue{0xabcdef, 0x123456, 17, 5, 1, {}};
  for (std::size_t i = 0; i < queue.gid.size(); ++i) queue.gid[i] = static_cast<std::byte>(i * 17);
  return {VerbsGreeting{{queue}},
          VerbsGreeting{std::vector<QueuePlace>(kMostRails, queue)},
          VerbsReady{},
          RingWanted{47},
          RingPlace{47, {0x7f00'0000'1000, 1 << 20, {1, 2, 3, 4}}, {}},
          RingPlace{47, {0x7f00'0000'1000, 64, {1}}, PartsPlace{0x7e00'0000'0000, 80 << 10, {5, 6}}}};
}

TEST(VerbsMessages, ComeBackAsTheyWere) {
  for (const auto& message : Examples()) {
    const auto bytes = Encode(message);
    EXPECT_LT(bytes.size(), progress::kMaxControlBytes);
    const auto decoded = DecodeVerbsMessage(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, message);
  }
}

TEST(VerbsMessages, DamagedOnesAreRefusedOrOthers) {
  EXPECT_FALSE(DecodeVerbsMessage({}));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(VerbsGreeting{})));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(VerbsGreeting{std::vector<QueuePlace>(kMostRails + 1)})));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(RingPlace{1, {2, 3, {}}, {}})));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(RingPlace{1, {2, 3, {4}}, PartsPlace{5, 6, {}}})));
  const std::vector<std::uint32_t> too_many(kMostRails + 1);
  EXPECT_FALSE(DecodeVerbsMessage(Encode(RingPlace{1, {2, 3, too_many}, {}})));
  EXPECT_FALSE(DecodeVerbsMessage(Encode(RingPlace{1, {2, 3, {4}}, PartsPlace{5, 6, too_many}})));
  for (const auto& message : Examples()) {
    const auto whole = Encode(message);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(DecodeVerbsMessage(std::span(whole).first(size))) << size;
    }
    auto longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(DecodeVerbsMessage(longer));
    net::ExpectChangedBytesAreRefusedOrOthers(
        whole, [](const auto& each) { return Encode(each); },
        [](const auto& bytes) { return DecodeVerbsMessage(bytes); });
  }
}

}  // namespace
}  // namespace tutti::verbs
