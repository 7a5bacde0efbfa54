// Which schedules a command is about: a program's file, or an algorithm's form of a collective on so many ranks.
//
// Thread-safety: value type, pure functions.
#pragma once

#include <string>

#include "algorithms/program.h"

namespace CLI {
class App;
}

namespace tutti::tools {

struct ScheduleChoice {
  std::string what = {};  // FILE.xml or an algorithm
  std::string collective = {};
  int ranks = 0;
  int nodes = 1;
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
