// The schedules that a command works on: a program's file, or an algorithm's form of a collective on a number of ranks.
//
// Thread-safety: value type, pure functions.
#pragma once

#include <string>
#include <vector>

#include "algorithms/msccl/program.h"

namespace CLI {
class App;
}

namespace tutti::tools {

struct ScheduleChoice {
  std::string what = {};       // FILE.xml or a collective
  std::string algorithm = {};  // of the collective
  std::string topology = {};  // of hosts whose GPUs are the ranks; empty: no particular machine
  int ranks = 0;              // 0: one for each GPU
  int nodes = 1;
  std::vector<int> ranks_on = {};  // by node; if not empty, replaces ranks and nodes
  int root = 0;
  int channels = 1;
};

// Adds the options that fill `choice`, which must outlive the app.
void AddScheduleOptions(CLI::App& command, ScheduleChoice& choice);

// All ranks' schedules. Throws Error with the reason if there are none.
msccl::Program ChosenSchedules(const ScheduleChoice& choice);
// The same, proved correct for connections with at least `slots` slots.
msccl::Program ProvedSchedules(const ScheduleChoice& choice, int slots = ring::kBulkDepth);

}  // namespace tutti::tools
