#include "tutti/parallel/flat_parameter.h"

#include <numeric>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

TEST(FlatParameter, ShardsCoverItOnceAndOnlyTheLastAreShorter) {
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    for (std::size_t count = 1; count <= 40; ++count) {
      const FlatParameter flat({{count}}, ranks);
      const auto& counts = flat.shard_counts();
      ASSERT_EQ(counts.size(), ranks);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), count);
      EXPECT_TRUE(std::ranges::is_sorted(counts, std::ranges::greater()));
      EXPECT_LE(counts.front() * ranks, count + ranks - 1);
      for (std::size_t rank = 1; rank < ranks; ++rank) {
        EXPECT_TRUE(counts[rank] == 0 || counts[rank - 1] == counts.front()) << count << " over " << ranks;
      }
    }
  }
}

TEST(FlatParameter, PartsLieOneBehindTheOther) {
  std::vector<float> memory(6 + 1 + 8);
  const FlatParameter flat({{2, 3}, {1}, {8}}, 4);
  ASSERT_EQ(flat.count(), memory.size());
  const Tensor whole(memory.data(), {memory.size()});
  EXPECT_EQ(flat.parameter(whole, 0).shape, (Shape{2, 3}));
  EXPECT_EQ(flat.parameter(whole, 0).floats(), memory.data());
  EXPECT_EQ(flat.parameter(whole, 1).floats(), memory.data() + 6);
  EXPECT_EQ(flat.parameter(whole, 2).floats(), memory.data() + 7);
  const float* next = memory.data();
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto shard = flat.shard(whole, rank);
    EXPECT_EQ(shard.floats(), next) << rank;
    next += shard.count();
  }
  EXPECT_EQ(next, memory.data() + memory.size());
  EXPECT_EQ(flat.parameter(Tensor(nullptr, {15}, tuttiFloat32), 2).data, nullptr);
}

}  // namespace
}  // namespace tutti::parallel
