// `tutti-bench grid`: the whole comparison in one run. Six collectives (all-reduce in and out of place, reduce-scatter,
// all-gather, all-to-all, broadcast in its one buffer) x six sizes x numbers of ranks x every installed peer, in three
// interleaved repetitions, next to this machine's bounds measured just before. Saved as JSON after every cell, so that
// an interrupted run can be resumed.
#pragma once

#include <string>
#include <vector>

#include "bench/driver/options.h"
#include "bench/report/record.h"

namespace tutti::bench {

struct GridCell {
  Operation operation;
  std::size_t bytes = 0;
  int ranks = 0;

  std::string Name() const;  // "all_reduce", "all_reduce_ip": in place, where both ways are measured
};

std::vector<std::size_t> GridSizes(const Options& options);
// In the order of measurement: by number of ranks, so that each is started once.
std::vector<GridCell> GridCells(const Options& options);

int RunGrid(const Options& options);

}  // namespace tutti::bench
