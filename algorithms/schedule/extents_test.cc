#include "algorithms/schedule/extents.h"

#include <gtest/gtest.h>

namespace tutti::schedule {
namespace {

TEST(Extents, BlocksOfABufferTileIt) {
  for (const int blocks : {1, 2, 3, 7, 64}) {
    for (const std::size_t bytes : {0, 1, 8, 63, 64, 65, 1000, 4096, 1'000'003}) {
      const auto extents = UniformExtents(Collective::all_reduce, blocks, blocks, bytes);
      std::size_t end = 0;
      for (std::size_t b = 0; b < extents.length.size(); ++b) {
        EXPECT_EQ(extents.input_offset[b], end);
        EXPECT_EQ(extents.output_offset[b], end);
        end += extents.length[b];
      }
      EXPECT_EQ(end, bytes);
    }
  }
}

TEST(Extents, OnlyOneSideOfAGatherHasAllBlocks) {
  const auto gather = UniformExtents(Collective::all_gather, 4, 4, 100);
  const auto scatter = UniformExtents(Collective::reduce_scatter, 4, 4, 100);
  for (std::size_t b = 0; b < 4; ++b) {
    EXPECT_EQ(gather.input_offset[b], 0U);
    EXPECT_EQ(gather.output_offset[b], b * 100);
    EXPECT_EQ(scatter.input_offset[b], b * 100);
    EXPECT_EQ(scatter.output_offset[b], 0U);
    EXPECT_EQ(gather.length[b], 100U);
  }
}

TEST(Extents, PartsOfARanksBlockTileIt) {
  constexpr int kParts = 3;
  const auto gather = UniformExtents(Collective::all_gather, 2, 2 * kParts, 200);
  EXPECT_EQ(gather.length, (std::vector<std::size_t>{128, 72, 0, 128, 72, 0}));
  EXPECT_EQ(gather.input_offset, (std::vector<std::size_t>{0, 128, 200, 0, 128, 200}));
  EXPECT_EQ(gather.output_offset, (std::vector<std::size_t>{0, 128, 200, 200, 328, 400}));
  const auto exchange = UniformExtents(Collective::all_to_all, 2, 2 * kParts, 200);
  EXPECT_EQ(exchange.length.size(), 4U * kParts);
  EXPECT_EQ(exchange.output_offset, gather.output_offset);
}

TEST(Extents, PairsHaveTwoLengthsEach) {
  const std::vector<std::size_t> sent = {1, 2}, sent_at = {0, 1}, received = {3, 4}, received_at = {10, 20};
  const auto extents = PairwiseExtents(sent, sent_at, received, received_at);
  EXPECT_TRUE(extents.pairwise);
  EXPECT_EQ(extents.length, (std::vector<std::size_t>{1, 2, 3, 4}));
  EXPECT_EQ(extents.input_offset, sent_at);
  EXPECT_EQ(extents.output_offset, received_at);
}

}  // namespace
}  // namespace tutti::schedule
