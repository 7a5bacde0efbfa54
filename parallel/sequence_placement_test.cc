// Every pair of a query and a key that the mask leaves is computed once, and nothing else.
#include "tutti/parallel/sequence_placement.h"

#include <algorithm>
#include <set>
#include <utility>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

using Placement = SequencePlacement;
using Pair = std::pair<std::size_t, std::size_t>;  // positions of a query and of a key

std::size_t CountOf(const std::optional<AttentionBlock>& block) {
  if (!block) return 0;
  return block->causal ? block->queries * (block->queries + 1) / 2 : block->queries * block->keys;
}

TEST(SequencePlacement, GivesEachPositionToOneRank) {
  for (const auto placement : {Placement::contiguous, Placement::zigzag}) {
    for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
      const std::size_t sequence = 6 * ranks;
      std::set<std::size_t> all;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const auto mine = positions_of(placement, sequence, rank, ranks);
        EXPECT_EQ(mine.size(), 6u);
        EXPECT_TRUE(std::ranges::is_sorted(mine));
        all.insert(mine.begin(), mine.end());
      }
      EXPECT_EQ(all.size(), sequence);
      EXPECT_EQ(*all.rbegin(), sequence - 1);
    }
  }
}

TEST(SequencePlacement, BlocksAreWhatTheMaskLeaves) {
  for (const auto placement : {Placement::contiguous, Placement::zigzag}) {
    for (const bool causal : {false, true}) {
      for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
        const std::size_t rows = 4, sequence = rows * ranks;
        std::set<Pair> computed;
        std::size_t count = 0;
        for (std::size_t query_rank = 0; query_rank < ranks; ++query_rank) {
          const auto queries = positions_of(placement, sequence, query_rank, ranks);
          for (std::size_t key_rank = 0; key_rank < ranks; ++key_rank) {
            const auto keys = positions_of(placement, sequence, key_rank, ranks);
            const auto block = visible_block(placement, causal, rows, query_rank, key_rank);
            count += CountOf(block);
            for (std::size_t i = 0; block && i < block->queries; ++i) {
              const std::size_t seen = block->causal ? i + 1 : block->keys;
              for (std::size_t j = 0; j < seen; ++j) {
                computed.emplace(queries[block->first_query + i], keys[block->first_key + j]);
              }
            }
          }
        }
        const std::size_t wanted = causal ? sequence * (sequence + 1) / 2 : sequence * sequence;
        EXPECT_EQ(count, wanted);
        EXPECT_EQ(computed.size(), wanted);
        EXPECT_TRUE(
            std::ranges::all_of(computed, [&](const Pair& pair) { return !causal || pair.second <= pair.first; }));
      }
    }
  }
}

// The step of a ring takes as long as its slowest rank.
TEST(SequencePlacement, ZigzagGivesAllRanksTheSameWorkInEveryStep) {
  for (std::size_t ranks = 2; ranks <= 8; ++ranks) {
    for (std::size_t step = 0; step < ranks; ++step) {
      std::set<std::size_t> zigzag, contiguous;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t from = (rank + ranks - step) % ranks;
        zigzag.insert(CountOf(visible_block(Placement::zigzag, true, 8, rank, from)));
        contiguous.insert(CountOf(visible_block(Placement::contiguous, true, 8, rank, from)));
      }
      EXPECT_EQ(zigzag.size(), 1u) << ranks << " ranks, step " << step;
      EXPECT_EQ(contiguous.size(), step == 0 ? 1u : 2u) << ranks << " ranks, step " << step;
    }
  }
}

TEST(SequencePlacement, NamesWhatDoesNotDivide) {
  EXPECT_TRUE(Throws([] { require_placeable(Placement::contiguous, 10, 4); }, tuttiInvalidArgument,
                     {"the sequence's length (10)", "the ring's size (4)"}));
  EXPECT_TRUE(Throws([] { require_placeable(Placement::zigzag, 12, 4); }, tuttiInvalidArgument,
                     {"the sequence's length (12)", "twice the ring's size (8)"}));
  EXPECT_NO_THROW(require_placeable(Placement::contiguous, 12, 4));
  EXPECT_NO_THROW(require_placeable(Placement::zigzag, 7, 1));
}

}  // namespace
}  // namespace tutti::parallel
