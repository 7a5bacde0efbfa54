// How times are measured. The calls run back to back; clocks are read once per batch, and batches are long enough (50
// us) to make a clock reading negligible. A batch's time is the slowest rank's (-a chooses another), and the result is
// the median over batches. Libraries compared in one cell are measured in turns, repetition by repetition, so that
// machine drift affects all alike; a library's result is then the median of its repetitions.
//
// The number of calls follows from a time budget, because the same cell can take 0.4 us in one library and 40 ms in
// another. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/team.h"
#include "bench/worker/collective.h"

namespace tutti::bench {

// nccl-tests' -a.
enum class OverRanks { first = 0, mean = 1, least = 2, greatest = 3 };

struct MeasurePlan {
  Milliseconds budget{300};       // of one timed loop
  std::optional<int> iterations;  // calls of one timed loop, instead of the budget
  int warmup = 5;                 // calls before it; fewer if they would take longer than the loop
  int fewest_batches = 3;
  double least_batch_us = 50;         // a clock reading takes about 30 ns, below 0.1 %
  int most_calls_in_batch = 1 << 30;  // bounds the nodes of a graph
  double hopeless_factor = 0;         // above 0: a library this many times slower than the best is not measured again
  bool check = true;
  OverRanks over_ranks = OverRanks::greatest;
  Milliseconds timeout{120'000};  // of any one request to a team
};

struct Series {
  bool supported = true;
  std::vector<double> us;  // one time of a call per batch
  std::size_t wrong = 0;   // elements, over all ranks and checks
  std::string algorithm;
};

// Prepares, checks, times, checks again, releases. Throws TeamLost.
Series Measure(Team& team, const Operation& operation, const MeasurePlan& plan, std::uint64_t seed);

struct Result {
  std::string library;
  bool measured = false;  // false: unsupported, or lost
  std::string error;      // why it was lost
  bool refused = false;   // it did not start
  double mean_us = 0;
  double median_us = 0;        // median over repetitions of the medians over batches
  double least_median_us = 0;  // over repetitions: the run's spread
  double greatest_median_us = 0;
  double p99_us = 0;  // over all batches
  std::size_t wrong = 0;
  bool checked = false;
  std::string algorithm;
};

// Results in the order of `teams`. A lost team is skipped from then on; its result has the reason.
std::vector<Result> MeasureInterleaved(const std::vector<std::unique_ptr<Team>>& teams, const Operation& operation,
                                       const MeasurePlan& plan, int repetitions);

}  // namespace tutti::bench
