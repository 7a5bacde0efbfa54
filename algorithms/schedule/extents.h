// Where each block of a collective lies in the user's buffers and how long it is. Pure functions of the call.
//
// Thread-safety: value types.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace tutti::schedule {

// In bytes, indexed by block id (schedule.h). For all_to_all the ids q and nranks + q are the blocks sent to and
// received from rank q.
struct Extents {
  std::vector<std::size_t> length;
  std::vector<std::size_t> input_offset;
  std::vector<std::size_t> output_offset;
  // Only each pair has its lengths: even an empty block sends one slot, so that a disagreement is seen.
  bool pairwise = false;
};

// `bytes`: of the whole buffer for all_reduce, broadcast, reduce; of one block for the others.
Extents UniformExtents(Collective collective, int nranks, int blocks, std::size_t bytes);

// Blocks of unequal length. `displacements` are those of the side that holds all blocks (all_gather: the output;
// reduce_scatter: the input).
Extents UnevenExtents(Collective collective, std::span<const std::size_t> lengths,
                      std::span<const std::size_t> displacements);

// all_to_all with its own length and place for each pair.
Extents PairwiseExtents(std::span<const std::size_t> send_lengths, std::span<const std::size_t> send_displacements,
                        std::span<const std::size_t> receive_lengths,
                        std::span<const std::size_t> receive_displacements);

// A point-to-point message: one block.
Extents MessageExtents(std::size_t bytes);

// The start of the share that channel `channel` of `channels` moves of a block of `length` bytes; the last share ends
// at ShareBegin(length, channels, channels) = length. Channels meet on cache lines.
std::size_t ShareBegin(std::size_t length, std::size_t channel, std::size_t channels);

}  // namespace tutti::schedule
