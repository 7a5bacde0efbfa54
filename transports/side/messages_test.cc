#include "transports/side/messages.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "net/wire_testing.h"
#include "transports/progress/network_transport.h"

namespace tutti::side {
namespace {

std::vector<Message> Examples() {
  return {Own{{std::byte{5}}}, Leaving{std::uint64_t{1} << 40}, Heard{}, Forwarded{~std::uint32_t{0}, {std::byte{7}}},
          GaveUp{"mlx5_0 port 1: gone"}};
}

// Those whose last part may have any length.
bool AnyLength(const Message& message) {
  return std::holds_alternative<Own>(message) || std::holds_alternative<Forwarded>(message);
}

TEST(SideMessages, ComeBackAsTheyWere) {
  for (const auto& message : Examples()) {
    const auto decoded = Decode(Encode(message));
    ASSERT_TRUE(decoded) << message.index();
    EXPECT_EQ(*decoded, message);
  }
}

TEST(SideMessages, LongReasonsAreCut) {
  const auto bytes = Encode(GaveUp{std::string(100'000, 'x')});
  ASSERT_LE(bytes.size(), progress::kMaxControlBytes);
  EXPECT_EQ(std::get<GaveUp>(*Decode(bytes)).why.size(), GaveUp::kLongestWhy);
}

TEST(SideMessages, DamagedOnesAreRefusedOrOthers) {
  EXPECT_FALSE(Decode({}));
  for (const auto& message : Examples()) {
    const auto whole = Encode(message);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto cut = Decode(std::span(whole).first(size));
      EXPECT_TRUE(!cut || AnyLength(*cut)) << message.index() << " cut to " << size;
    }
    auto longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_EQ(Decode(longer).has_value(), AnyLength(message)) << message.index();
    net::ExpectChangedBytesAreRefusedOrOthers(
        whole, [](const auto& each) { return Encode(each); }, [](const auto& bytes) { return Decode(bytes); });
  }
}

}  // namespace
}  // namespace tutti::side
