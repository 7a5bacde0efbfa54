// The command line of tutti-bench: nccl-tests' flags where they mean something here, and our own.
//
// Thread-safety: value types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/command_line/outline.h"
#include "bench/backends/library.h"
#include "bench/driver/launch.h"
#include "bench/driver/measure.h"
#include "bench/worker/collective.h"

namespace tutti::bench {

struct Options {
  std::string name;  // a collective, "limits", "grid" or "device"
  std::vector<std::size_t> sizes;
  std::vector<tuttiDataType_t> types;
  std::vector<tuttiRedOp_t> ops;
  int root = 0;  // -1: every root
  bool out_of_place = true;
  bool in_place = true;

  int ranks = 0;    // in all
  int threads = 1;  // ranks in a process
  ClusterShape cluster;
  CallSettings call;
  MeasurePlan plan;
  int repetitions = 1;
  int cycles = 1;  // 0: forever
  bool timestamps = false;
  int busy = 0;  // processes that compute beside the ranks

  std::vector<std::string> peers;
  bool with_tutti = true;
  std::string json_file, csv_file, plot_file, markdown_file;
  bool resume = false;
  std::vector<int> grid_ranks;
  std::vector<std::size_t> grid_sizes;  // empty: the grid's own
};

// `launched_ranks`: ranks that a launcher has already started, 0 if none. Returns nullopt and sets *status if there is
// nothing to run (help, or an error that has been printed).
std::optional<Options> ParseOptions(int argc, char** argv, int launched_ranks, int* status);

// For completion and the man page.
command_line::OutlinedCommand OutlineOfBench();

}  // namespace tutti::bench
