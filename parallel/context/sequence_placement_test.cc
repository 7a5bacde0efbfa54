// Every pair of a query and a key that the mask leaves is computed once, and nothing else.
#include "tutti/parallel/sequence_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

using Placement = SequencePlacement;
using Pair = std::pair<std::size_t, std::size_t>;  // positions of a query and of a key

std::size_t CountOf(const std::vector<AttentionBlock>& blocks) {
  std::size_t count = 0;
  for (const auto& block : blocks) {
    for (std::size_t query = 0; query < block.queries; ++query) {
      const auto [begin, end] = visible_keys(block.mask, block.lead, query, block.keys);
      count += end - begin;
    }
  }
  return count;
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

class Masks : public ::testing::TestWithParam<AttentionMask> {};
INSTANTIATE_TEST_SUITE_P(Of, Masks,
                         ::testing::Values(AttentionMask{}, AttentionMask{true}, AttentionMask{true, 1},
                                           AttentionMask{true, 2}, AttentionMask{true, 3}, AttentionMask{true, 4},
                                           AttentionMask{true, 7}, AttentionMask{true, 12}, AttentionMask{true, 13},
                                           AttentionMask{true, 1000}),
                         [](const auto& info) {
                           return info.param.causal ? fmt::format("causal_{}", info.param.window) : "none";
                         });

TEST_P(Masks, LeaveEveryPairOnce) {
  const auto mask = GetParam();
  const auto sees = [&](std::size_t query, std::size_t key) {
    return !mask.causal || (key <= query && (mask.window == 0 || query - key < mask.window));
  };
  constexpr std::size_t kRows = 6;
  for (const auto placement : {Placement::contiguous, Placement::zigzag}) {
    for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
      std::set<Pair> wanted, computed;
      for (std::size_t query = 0; query < kRows * ranks; ++query) {
        for (std::size_t key = 0; key < kRows * ranks; ++key) {
          if (sees(query, key)) wanted.emplace(query, key);
        }
      }
      std::size_t count = 0;
      for (std::size_t query_rank = 0; query_rank < ranks; ++query_rank) {
        const auto queries = positions_of(placement, kRows * ranks, query_rank, ranks);
        for (std::size_t key_rank = 0; key_rank < ranks; ++key_rank) {
          const auto keys = positions_of(placement, kRows * ranks, key_rank, ranks);
          std::vector<std::size_t> last_key(kRows), pairs_of(kRows);  // of each query, and how many before it
          for (const auto& block : visible_blocks(placement, mask, kRows, query_rank, key_rank, ranks)) {
            std::size_t seen_keys = 0;
            for (std::size_t i = 0; i < block.queries; ++i) {
              const std::size_t row = block.first_query + i;
              const auto [begin, end] = visible_keys(block.mask, block.lead, i, block.keys);
              EXPECT_LT(begin, end) << "a query that sees nothing is none of the block's";
              for (std::size_t j = begin; j < end; ++j) {
                const std::size_t key = keys.at(block.first_key + j);
                computed.emplace(queries.at(row), key);
                EXPECT_TRUE(pairs_of[row]++ == 0 || key > last_key[row]) << "keys come in their order";
                last_key[row] = key;
                ++count;
              }
              seen_keys = std::max(seen_keys, end);
            }
            EXPECT_EQ(seen_keys, block.keys);
            // The same, from the keys' side.
            std::size_t by_keys = 0;
            for (std::size_t j = 0; j < block.keys; ++j) {
              const auto [begin, end] = visible_queries(block.mask, block.lead, j, block.queries);
              EXPECT_LT(begin, end) << "a key that nobody sees is none of the block's";
              for (std::size_t i = begin; i < end; ++i, ++by_keys) {
                EXPECT_TRUE(sees(queries.at(block.first_query + i), keys.at(block.first_key + j)));
              }
            }
            EXPECT_EQ(by_keys, CountOf({block}));
          }
        }
      }
      EXPECT_EQ(computed, wanted);
      EXPECT_EQ(count, wanted.size());
    }
  }
}

TEST_P(Masks, KeysReachWhoSeesThem) {
  constexpr std::size_t kRows = 6;
  for (const auto placement : {Placement::contiguous, Placement::zigzag}) {
    for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
      for (std::size_t owner = 0; owner < ranks; ++owner) {
        const std::size_t reach = reach_of_keys(placement, GetParam(), kRows, owner, ranks);
        ASSERT_LT(reach, ranks);
        for (std::size_t step = reach; step < ranks; ++step) {
          const auto blocks = visible_blocks(placement, GetParam(), kRows, (owner + step) % ranks, owner, ranks);
          EXPECT_EQ(blocks.empty(), step > reach) << ranks << " ranks, keys of " << owner << ", step " << step;
        }
      }
    }
  }
}

// Where chunks are longer than the window, no rank needs keys but of the rank before it.
TEST(SequencePlacement, AWindowShortensAContiguousRing) {
  for (const auto& [window, reach] : {std::pair{1, 0}, std::pair{2, 1}, std::pair{7, 1}, std::pair{8, 2}}) {
    const AttentionMask mask{true, static_cast<std::size_t>(window)};
    EXPECT_EQ(reach_of_keys(Placement::contiguous, mask, 6, 2, 8), static_cast<std::size_t>(reach)) << window;
    EXPECT_EQ(reach_of_keys(Placement::contiguous, mask, 6, 7, 8), 0u) << "nothing comes behind the last";
  }
}

// A ring's step takes as long as its slowest rank.
TEST(SequencePlacement, ZigzagGivesAllRanksTheSameWorkInEveryStep) {
  for (std::size_t ranks = 2; ranks <= 8; ++ranks) {
    for (std::size_t step = 0; step < ranks; ++step) {
      std::set<std::size_t> zigzag, contiguous;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t from = (rank + ranks - step) % ranks;
        zigzag.insert(CountOf(visible_blocks(Placement::zigzag, {.causal = true}, 8, rank, from, ranks)));
        contiguous.insert(CountOf(visible_blocks(Placement::contiguous, {.causal = true}, 8, rank, from, ranks)));
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
