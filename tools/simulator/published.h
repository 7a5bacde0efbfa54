// Published measurements next to the simulator's predictions: docs/simulator.md's table.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "selection/cost_model/machine.h"

namespace tutti::tools {

struct Comparison {
  std::string system;
  std::string algorithm;  // as published
  std::size_t bytes = 0;
  double published_us = 0;
  double simulated_us = 0;
  std::string how = {};  // the fastest channels, protocol and chunk
  double Error() const { return simulated_us / published_us - 1; }
};

// Simulates every row of a file like selection/simulator/testdata/published.csv. Throws if the simulator has no
// description of a row's system. REQUIRES: the working directory is the project's root.
std::vector<Comparison> ComparePublished(const std::string& path);
double MedianError(const std::vector<Comparison>& comparisons);  // absolute
double LargestError(const std::vector<Comparison>& comparisons);

// Prints the same as a Markdown table to stdout.
void PrintPublished(const std::string& path);

}  // namespace tutti::tools
