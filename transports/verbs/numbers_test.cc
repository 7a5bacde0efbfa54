#include "transports/verbs/numbers.h"

#include <gtest/gtest.h>

#include <random>

namespace tutti::verbs {
namespace {

TEST(VerbsNumbers, AnImmediateNamesASlotNearTheNewest) {
  std::mt19937 random(3);
  constexpr std::uint32_t kDepth = 64;
  for (int i = 0; i < 100'000; ++i) {
    const auto newest = static_cast<std::uint32_t>(random());
    const std::uint32_t number = newest + random() % (2 * kDepth + 1) - kDepth;
    const std::uint32_t connection = random() % kMostVerbsConnections;
    const auto immediate = SlotImmediate(connection, number);
    ASSERT_EQ(ImmediateConnection(immediate), connection);
    ASSERT_EQ(ImmediateNumber(immediate, newest), number) << newest;
  }
  // Where numbers begin, and where they wrap.
  EXPECT_EQ(ImmediateNumber(SlotImmediate(0, 1), 0), 1U);
  EXPECT_EQ(ImmediateNumber(SlotImmediate(9, 3), 0xffffffff), 3U);
  EXPECT_EQ(ImmediateNumber(SlotImmediate(9, 0xffffffff), 3), 0xffffffffU);
}

TEST(VerbsNumbers, WorkComesBackAsItWas) {
  for (const auto kind : {WorkId::Kind::receive, WorkId::Kind::part, WorkId::Kind::slot, WorkId::Kind::data}) {
    for (const bool told : {false, true}) {
      const WorkId id{kind, told, WorkId::kMostRanks - 1, kMostVerbsConnections - 1, 0xffffffff};
      EXPECT_EQ(WorkId::From(id.Bits()), id);
      const WorkId small{kind, told, 0, 1, 0};
      EXPECT_EQ(WorkId::From(small.Bits()), small);
    }
  }
  for (const bool last : {false, true}) {
    for (const bool own : {false, true}) {
      const auto part = PartImmediate::From(PartImmediate{last, own}.Bits());
      EXPECT_EQ(part.last, last);
      EXPECT_EQ(part.own, own);
    }
  }
}

}  // namespace
}  // namespace tutti::verbs
