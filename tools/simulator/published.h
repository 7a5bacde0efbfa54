// Published measurements next to the simulator's predictions, from which scripts/docs/draw_published.py makes the
// tables and the picture of docs/simulator.md.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace tutti::tools {

struct Comparison {
  std::string system;
  int ranks = 0;
  int nodes = 0;
  schedule::Collective collective = schedule::Collective::all_reduce;
  std::string algorithm;  // that the measured library took, in its own word
  std::size_t bytes = 0;  // of a rank's larger side
  double published_us = 0;
  double simulated_us = 0;
  bool fitted = false;  // a constant was fitted to this row
  std::string source;
  std::string how = {};  // the fastest protocol and chunk
  double Error() const { return simulated_us / published_us - 1; }
};

// Simulates every row of a file like selection/simulator/testdata/published.csv, on the systems that a file like
// systems.csv there describes. Throws tuttiInvalidArgument, with file and line, if a file is malformed or does not
// describe a row's system. Leaves out rows of more than `most_ranks`, which take longest. REQUIRES: the working directory
// is the project's root.
inline constexpr int kAnyRanks = 1 << 16;
std::vector<Comparison> ComparePublished(const std::string& path, const std::string& systems,
                                         int most_ranks = kAnyRanks);
double MedianError(const std::vector<Comparison>& comparisons);  // absolute
double LargestError(const std::vector<Comparison>& comparisons);
std::vector<Comparison> Only(const std::vector<Comparison>& comparisons, bool (*wanted)(const Comparison&));
inline bool IsNvls(const Comparison& comparison) { return comparison.algorithm == "nvls"; }

// Prints the same as a Markdown table to stdout.
void PrintPublished(const std::string& path, const std::string& systems);

}  // namespace tutti::tools
