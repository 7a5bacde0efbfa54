// The keys that a query sees, and so the part of a block of queries and keys that is left to compute: arithmetic alone.
//
// Source of the window: Jiang et al. 2023, "Mistral 7B" (sliding window attention).
//
// Thread-safety: pure functions; constexpr, so that kernels call them, too.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tutti/parallel/index_range.h"

namespace tutti::parallel {

struct TUTTI_API AttentionMask {
  bool causal = false;     // only keys up to the query's own position
  std::size_t window = 0;  // only the last `window` of these, the query's own included; 0: all. REQUIRES: causal

  bool operator==(const AttentionMask&) const = default;
};

// Queries [first_query, first_query + queries) of those that one rank holds; likewise keys and values.
struct TUTTI_API AttentionBlock {
  std::size_t first_query = 0, queries = 0;
  std::size_t first_key = 0, keys = 0;
  AttentionMask mask = {};
  std::size_t lead = 0;  // the first query's position less the first key's, for the mask

  bool operator==(const AttentionBlock&) const = default;
};

// The keys, of a block's `keys`, that its query `query` sees.
constexpr IndexRange visible_keys(const AttentionMask& mask, std::size_t lead, std::size_t query, std::size_t keys) {
  const std::size_t before = query + lead + 1;  // from the first key on
  const std::size_t end = mask.causal ? std::min(before, keys) : keys;
  return {mask.window == 0 || before <= mask.window ? 0 : std::min(before - mask.window, end), end};
}

// The queries, of a block's `queries`, that see its key `key`.
constexpr IndexRange visible_queries(const AttentionMask& mask, std::size_t lead, std::size_t key,
                                     std::size_t queries) {
  const std::size_t begin = mask.causal && key > lead ? std::min(key - lead, queries) : 0;
  if (mask.window == 0) return {begin, queries};
  return {begin, key + mask.window <= lead ? begin : std::min(key + mask.window - lead, queries)};
}

}  // namespace tutti::parallel
