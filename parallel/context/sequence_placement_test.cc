// Every pair of a query and a key that the mask leaves is computed once, and nothing else.
#include "tutti/parallel/sequence_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

using Placement = SequencePlacement;
using Pair = std::pair<std::size_t, std::size_t>;  // positions of a query and of a key

using Borders = std::vector<std::size_t>;
using Chunks = std::vector<SequenceChunk>;

constexpr std::size_t kMostRanks = 8;

// Sequences that `ranks` divide, or do not, or that are shorter; one sample, or several.
std::vector<Borders> SequencesFor(std::size_t ranks) {
  return {{0, 6 * ranks},         {0, 13}, {0, 3}, {0, 5, 6, 13}, {0, 0, 17, 17, 30}, {0, 1, 2, 3, 4, 5},
          {0, 12, 6 * ranks + 12}};
}

std::vector<Chunks> AllChunks(Placement placement, const Borders& cu_seqlens, std::size_t ranks) {
  std::vector<Chunks> chunks;
  for (std::size_t rank = 0; rank < ranks; ++rank) chunks.push_back(chunks_of(placement, cu_seqlens, rank, ranks));
  return chunks;
}

// Calls call(placement, cu_seqlens, ranks) with all of them.
void ForAll(const std::function<void(Placement, const Borders&, std::size_t)>& call) {
  for (const auto placement : {Placement::contiguous, Placement::zigzag}) {
    for (std::size_t ranks = 1; ranks <= kMostRanks; ++ranks) {
      for (const auto& cu_seqlens : SequencesFor(ranks)) {
        SCOPED_TRACE(
            fmt::format("zigzag {}, {} ranks, {}", placement == Placement::zigzag, ranks, describe(cu_seqlens)));
        call(placement, cu_seqlens, ranks);
      }
    }
  }
}

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
  ForAll([](Placement placement, const Borders& cu_seqlens, std::size_t ranks) {
    std::vector<std::size_t> all;
    std::size_t fewest = cu_seqlens.back(), most = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto mine = positions_of(chunks_of(placement, cu_seqlens, rank, ranks));
      EXPECT_TRUE(std::ranges::is_sorted(mine));
      fewest = std::min(fewest, mine.size()), most = std::max(most, mine.size());
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::ranges::sort(all);
    std::vector<std::size_t> wanted(cu_seqlens.back());
    std::iota(wanted.begin(), wanted.end(), std::size_t{0});
    EXPECT_EQ(all, wanted);
    EXPECT_LE(most - fewest, 1);  // of all samples together
  });
}

TEST(SequencePlacement, IsPerSampleWithZigzagAndOfTheWholeOtherwise) {
  EXPECT_EQ(positions_of(chunks_of(Placement::zigzag, {0, 13}, 1, 3)), (Borders{3, 4, 9, 10}));
  EXPECT_EQ(positions_of(chunks_of(Placement::zigzag, {0, 4, 13}, 0, 2)), (Borders{0, 3, 4, 5, 6, 11, 12}));
  EXPECT_EQ(positions_of(chunks_of(Placement::contiguous, {0, 4, 13}, 0, 2)), (Borders{0, 1, 2, 3, 4, 5, 6}));
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
  ForAll([mask = GetParam()](Placement placement, const Borders& cu_seqlens, std::size_t ranks) {
    const auto sample = [&](std::size_t position) { return std::ranges::upper_bound(cu_seqlens, position); };
    const auto sees = [&](std::size_t query, std::size_t key) {
      return sample(query) == sample(key) &&
             (!mask.causal || (key <= query && (mask.window == 0 || query - key < mask.window)));
    };
    std::set<Pair> wanted, computed;
    for (std::size_t query = 0; query < cu_seqlens.back(); ++query) {
      for (std::size_t key = 0; key < cu_seqlens.back(); ++key) {
        if (sees(query, key)) wanted.emplace(query, key);
      }
    }
    std::size_t count = 0;
    const auto chunks = AllChunks(placement, cu_seqlens, ranks);
    for (const auto& of_queries : chunks) {
      const auto queries = positions_of(of_queries);
      for (const auto& of_keys : chunks) {
        const auto keys = positions_of(of_keys);
        std::vector<std::size_t> last_key(queries.size()), pairs_of(queries.size());  // of each query
        for (const auto& block : visible_blocks(mask, of_queries, of_keys)) {
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
  });
}

// Fewer and larger blocks are quicker to compute.
TEST(SequencePlacement, GivesOneBlockASampleUnlessThereIsAWindow) {
  ForAll([](Placement placement, const Borders& cu_seqlens, std::size_t ranks) {
    const auto chunks = AllChunks(placement, cu_seqlens, ranks);
    for (const auto& queries : chunks) {
      for (const auto& keys : chunks) {
        for (const bool causal : {false, true}) {
          EXPECT_LE(visible_blocks({causal}, queries, keys).size(), cu_seqlens.size() - 1);
        }
      }
    }
  });
}

TEST_P(Masks, KeysReachWhoSeesThem) {
  ForAll([](Placement placement, const Borders& cu_seqlens, std::size_t ranks) {
    const auto chunks = AllChunks(placement, cu_seqlens, ranks);
    for (std::size_t owner = 0; owner < ranks; ++owner) {
      const std::size_t reach = reach_of_keys(GetParam(), chunks, owner);
      ASSERT_LT(reach, ranks);
      for (std::size_t step = std::max<std::size_t>(reach, 1); step < ranks; ++step) {
        EXPECT_EQ(visible_blocks(GetParam(), chunks[(owner + step) % ranks], chunks[owner]).empty(), step > reach)
            << "keys of " << owner << ", step " << step;
      }
    }
  });
}

// Where chunks are longer than the window, no rank needs keys but of the rank before it.
TEST(SequencePlacement, AWindowShortensAContiguousRing) {
  const auto chunks = AllChunks(Placement::contiguous, {0, 48}, 8);
  for (const auto& [window, reach] : {std::pair{1, 0}, std::pair{2, 1}, std::pair{7, 1}, std::pair{8, 2}}) {
    const AttentionMask mask{true, static_cast<std::size_t>(window)};
    EXPECT_EQ(reach_of_keys(mask, chunks, 2), static_cast<std::size_t>(reach)) << window;
    EXPECT_EQ(reach_of_keys(mask, chunks, 7), 0u) << "nothing comes behind the last";
  }
}

// Keys go no further than their samples.
TEST(SequencePlacement, SamplesShortenAContiguousRing) {
  for (const auto& mask : {AttentionMask{}, AttentionMask{true}}) {
    const auto chunks = AllChunks(Placement::contiguous, {0, 8, 12, 16}, 4);
    std::vector<std::size_t> reaches;
    for (std::size_t owner = 0; owner < 4; ++owner) reaches.push_back(reach_of_keys(mask, chunks, owner));
    EXPECT_EQ(reaches, (Borders{1, mask.causal ? 0u : 3u, 0, 0}));
  }
}

// A ring's step takes as long as its slowest rank.
TEST(SequencePlacement, ZigzagGivesAllRanksTheSameWorkInEveryStep) {
  for (std::size_t ranks = 2; ranks <= kMostRanks; ++ranks) {
    const auto zigzag = AllChunks(Placement::zigzag, {0, 2 * ranks, 8 * ranks}, ranks);
    const auto contiguous = AllChunks(Placement::contiguous, {0, 8 * ranks}, ranks);
    for (std::size_t step = 0; step < ranks; ++step) {
      std::set<std::size_t> of_zigzag, of_contiguous;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t from = (rank + ranks - step) % ranks;
        of_zigzag.insert(CountOf(visible_blocks({.causal = true}, zigzag[rank], zigzag[from])));
        of_contiguous.insert(CountOf(visible_blocks({.causal = true}, contiguous[rank], contiguous[from])));
      }
      EXPECT_EQ(of_zigzag.size(), 1u) << ranks << " ranks, step " << step;
      EXPECT_EQ(of_contiguous.size(), step == 0 ? 1u : 2u) << ranks << " ranks, step " << step;
    }
  }
}

}  // namespace
}  // namespace tutti::parallel
