#include "tutti/parallel/sequence_placement.h"

#include <algorithm>
#include <optional>

namespace tutti::parallel {
namespace {

// The block that a mask leaves of two chunks of a sample, which are the same or have no position in common. It is
// without the rows at its ends that see, or are seen by, nothing on the other side.
std::optional<AttentionBlock> BlockOf(const AttentionMask& mask, const SequenceChunk& queries,
                                      const SequenceChunk& keys) {
  if (!mask.causal) return AttentionBlock{queries.first_row, queries.rows, keys.first_row, keys.rows};
  if (queries.first_position < keys.first_position) return std::nullopt;
  AttentionBlock block{queries.first_row, queries.rows, keys.first_row,
                       keys.rows,         mask,         queries.first_position - keys.first_position};
  const std::size_t hidden = visible_keys(mask, block.lead, 0, block.keys).begin;
  if (hidden == block.keys) return std::nullopt;  // from the first query, and so from all later ones
  block.first_key += hidden;
  block.keys -= hidden;
  block.lead -= hidden;
  block.queries = visible_queries(mask, block.lead, block.keys - 1, block.queries).end;
  // Drops masks that hide nothing, so that none is computed with in vain.
  if (block.lead + block.queries <= mask.window) block.mask.window = 0;
  if (block.mask.window == 0 && block.keys <= block.lead + 1) block.mask = {}, block.lead = 0;
  return block;
}

// Makes one of two blocks, of which the second one follows, if together they are a block without a mask.
bool Joins(AttentionBlock& block, const AttentionBlock& next) {
  if (block.mask != AttentionMask{} || next.mask != AttentionMask{}) return false;
  const bool same_queries = block.first_query == next.first_query && block.queries == next.queries;
  const bool same_keys = block.first_key == next.first_key && block.keys == next.keys;
  if (same_queries && block.first_key + block.keys == next.first_key) {
    block.keys += next.keys;
  } else if (same_keys && block.first_query + block.queries == next.first_query) {
    block.queries += next.queries;
  } else {
    return false;
  }
  return true;
}

// Each sample's chunks as one, whose rows count as positions.
std::vector<SequenceChunk> BySample(const std::vector<SequenceChunk>& chunks) {
  std::vector<SequenceChunk> whole;
  for (const auto& chunk : chunks) {
    if (!whole.empty() && whole.back().sample == chunk.sample) {
      whole.back().rows += chunk.rows;
    } else {
      whole.push_back(chunk);
    }
  }
  return whole;
}

}  // namespace

std::vector<SequenceChunk> chunks_of(SequencePlacement placement, const std::vector<std::size_t>& cu_seqlens,
                                     std::size_t rank, std::size_t ranks) {
  std::vector<SequenceChunk> chunks;
  std::size_t row = 0;
  const auto add = [&](std::size_t sample, std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    chunks.push_back({row, begin, end - begin, sample});
    row += end - begin;
  };
  const auto mine = part_of(cu_seqlens.back(), rank, ranks);
  for (std::size_t sample = 0; sample + 1 < cu_seqlens.size(); ++sample) {
    const std::size_t begin = cu_seqlens[sample], end = cu_seqlens[sample + 1];
    if (placement == SequencePlacement::contiguous || ranks == 1) {
      add(sample, std::max(begin, mine.begin), std::min(end, mine.end));
      continue;
    }
    for (const std::size_t part : {rank, 2 * ranks - 1 - rank}) {
      // The samples before it have made that many parts longer, so the next one is the first of this one's. Parts come
      // to ranks 0, 1, .. and back, so ranks differ by one position at most.
      const auto range = part_of(end - begin, part, 2 * ranks, begin % (2 * ranks));
      add(sample, begin + range.begin, begin + range.end);
    }
  }
  return chunks;
}

std::vector<std::size_t> positions_of(const std::vector<SequenceChunk>& chunks) {
  std::vector<std::size_t> positions;
  for (const auto& chunk : chunks) {
    for (std::size_t row = 0; row < chunk.rows; ++row) positions.push_back(chunk.first_position + row);
  }
  return positions;
}

std::vector<AttentionBlock> visible_blocks(const AttentionMask& mask, const std::vector<SequenceChunk>& queries,
                                           const std::vector<SequenceChunk>& keys) {
  if (mask.window == 0 && queries == keys) {
    // Rows ascend as positions do, so a query sees the rows up to its own, whatever other ranks hold between them.
    const auto whole = BySample(queries);
    if (whole.size() < queries.size()) return visible_blocks(mask, whole, whole);
  }
  std::vector<AttentionBlock> blocks;
  auto first = keys.begin();
  for (const auto& some : queries) {
    while (first != keys.end() && first->sample < some.sample) ++first;
    for (auto key = first; key != keys.end() && key->sample == some.sample; ++key) {
      const auto block = BlockOf(mask, some, *key);
      if (!block) continue;
      blocks.push_back(*block);
      while (blocks.size() > 1 && Joins(blocks[blocks.size() - 2], blocks.back())) blocks.pop_back();
    }
  }
  return blocks;
}

std::size_t reach_of_keys(const AttentionMask& mask, const std::vector<std::vector<SequenceChunk>>& chunks,
                          std::size_t key_rank) {
  std::size_t reach = chunks.size() - 1;
  while (reach > 0 && visible_blocks(mask, chunks[(key_rank + reach) % chunks.size()], chunks[key_rank]).empty()) {
    --reach;
  }
  return reach;
}

}  // namespace tutti::parallel
