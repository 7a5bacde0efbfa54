#include "tutti/parallel/index_range.h"

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kMostCount = 20, kMostParts = 7;

// The parts follow each other, and those from `first_longer` on, around, have one of the remainder each.
TEST(IndexRange, PartsAreConsecutiveAndShareTheRemainder) {
  for (std::size_t count = 0; count <= kMostCount; ++count) {
    for (std::size_t parts = 1; parts <= kMostParts; ++parts) {
      for (std::size_t first = 0; first < parts; ++first) {
        SCOPED_TRACE(testing::Message() << count << " in " << parts << " parts, longer from " << first);
        std::size_t end = 0;
        for (std::size_t part = 0; part < parts; ++part) {
          const auto range = part_of(count, part, parts, first);
          EXPECT_EQ(range.begin, end);
          const bool is_longer = (part + parts - first) % parts < count % parts;
          EXPECT_EQ(range.size(), count / parts + (is_longer ? 1 : 0)) << "part " << part;
          end = range.end;
        }
        EXPECT_EQ(end, count);
      }
    }
  }
}

TEST(IndexRange, FirstPartsAreTheLongerOnesAsInTensorSplit) {
  EXPECT_EQ(part_of(7, 0, 3), (IndexRange{0, 3}));
  EXPECT_EQ(part_of(7, 1, 3), (IndexRange{3, 5}));
  EXPECT_EQ(part_of(7, 2, 3), (IndexRange{5, 7}));
}

}  // namespace
}  // namespace tutti::parallel
