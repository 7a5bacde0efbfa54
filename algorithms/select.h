// The first selector: which algorithm, how many channels, what chunk and which wire, from size, ranks and cores. Its
// constants are crossovers measured on a host (docs/performance.md). A topology that can price schedules takes its
// place without another change: everything above asks Select().
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "algorithms/schedule.h"
#include "transports/slot.h"

namespace tutti {

// Everything a plan may depend on. All of it is equal on all ranks.
struct SelectInput {
  Collective collective = Collective::barrier;
  int nranks = 1;
  int cores = 1;          // that the ranks share
  int max_channels = 1;   // the fabric's
  int threads = 1;        // that move data, on the rank that has most
  std::size_t bytes = 0;  // all_reduce, broadcast, reduce: of the buffer; otherwise of the largest block
  std::size_t element_bytes = 1;
  bool pairwise = false;       // blocks whose lengths only their pair knows
  bool low_precision = false;  // a partial sum that travels has been rounded
  bool deterministic = false;
  std::size_t bulk_capacity = 0;  // of the fabric's slots
  std::optional<tuttiAlgorithm_t> forced_algorithm;
  int forced_channels = 0;             // 0: free
  std::size_t forced_chunk_bytes = 0;  // 0: free
};

struct Choice {
  tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
  int channels = 1;
  const char* reason = "";  // for a person
};

// How a plan moves a message.
struct Shape {
  Wire wire = Wire::bulk;
  std::size_t chunk_bytes = 0;  // of each block at a time; a multiple of 64 unless it covers whole blocks
};

// Which algorithm. A forced one that has no form of the collective is passed over, and the reason says so.
// REQUIRES: input.deterministic implies at most kMaxReads ranks.
Choice ChooseAlgorithm(const SelectInput& input);

// How its slots are shaped, for a schedule that cuts buffers into `blocks`.
Shape ChooseShape(const SelectInput& input, int blocks);

}  // namespace tutti
