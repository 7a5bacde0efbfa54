// Which schedules a command is about: a program's file, or an algorithm's form of a collective on so many ranks.
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
  std::string what = {};  // FILE.xml or an algorithm
  std::string collective = {};
  std::string topology = {};  // of hosts whose GPUs the ranks are; empty: of no machine in particular
  int ranks = 0;              // 0: one for each GPU
  int nodes = 1;
  std::vector<int> ranks_on = {};  // by node; not empty: instead of ranks and nodes
  int root = 0;
  int channels = 1;
};

// Adds the options that fill `choice`, which must outlive the app.
void AddScheduleOptions(CLI::App& command, ScheduleChoice& choice);

// All ranks' schedules. Throws Error with the reason if there are none such.
Program ChosenSchedules(const ScheduleChoice& choice);
// The same, and proved to be right where a connection has so many slots or more.
Program ProvedSchedules(const ScheduleChoice& choice, int slots = kBulkDepth);

}  // namespace tutti::tools
