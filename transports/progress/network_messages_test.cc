#include "transports/progress/network_messages.h"

#include <gtest/gtest.h>

#include "net/wire_testing.h"

namespace tutti::progress {
namespace {

std::vector<std::byte> Encoded(const NetworkMessage& message) {
  std::vector<std::byte> bytes;
  Encode(message, bytes);
  return bytes;
}

std::vector<NetworkMessage> Examples() {
  Credits credits;
  for (std::uint32_t i = 0; i < Credits::kMost; ++i) credits.Add({i, 0xffffffff - i});
  return {credits,
          Status{7, {1, 2, 3, 4, 0, ring::PackOrigin(0, 11)}, 5, 6, 8},
          Site{11, {"step", "/job/train", 0x11f2, 13}},
          Failed{6, 1, 5, "rank 3 died"},
          Failed{},
          Leaving{9}};
}

TEST(NetworkMessages, ComeBackAsTheyWere) {
  for (const auto& message : Examples()) {
    const auto bytes = Encoded(message);
    ASSERT_LE(bytes.size(), kMaxControlBytes);
    const auto decoded = DecodeNetworkMessage(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(Encoded(*decoded), bytes);
  }
  const auto status =
      std::get<Status>(*DecodeNetworkMessage(Encoded(Status{7, {1, 2, 3, 4, 0, ring::PackOrigin(0, 11)}, 5, 6, 8})));
  EXPECT_EQ(status.operation.site(), 11U);
  EXPECT_EQ(status.operation.signature, 2U);
  EXPECT_EQ(status.completed, 6U);
  EXPECT_EQ(status.mark, 8U);
}

TEST(NetworkMessages, TheLongestTextFits) {
  const auto bytes = Encoded(Failed{1, 0, 0, std::string(2 * ring::kFaultText, 'x')});
  ASSERT_LE(bytes.size(), kMaxControlBytes);
  EXPECT_EQ(std::get<Failed>(*DecodeNetworkMessage(bytes)).text.size(), ring::kFaultText);
  const std::string longest(ring::kSiteText, 'x');
  const Site site{1, {longest, longest, 0, 0}};
  ASSERT_LE(Encoded(site).size(), kMaxControlBytes);
  EXPECT_EQ(std::get<Site>(*DecodeNetworkMessage(Encoded(site))), site);
}

TEST(NetworkMessages, DamagedOnesAreRefusedOrOthers) {
  EXPECT_FALSE(DecodeNetworkMessage({}));
  for (const auto& message : Examples()) {
    const auto whole = Encoded(message);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto cut = DecodeNetworkMessage(std::span(whole).first(size));
      // A shortened list of credits is still valid.
      if (cut) {
        EXPECT_TRUE(std::holds_alternative<Credits>(*cut)) << size;
      }
    }
    net::ExpectChangedBytesAreRefusedOrOthers(
        whole, [](const auto& each) { return Encoded(each); },
        [](const auto& bytes) { return DecodeNetworkMessage(bytes); });
  }
}

}  // namespace
}  // namespace tutti::progress
