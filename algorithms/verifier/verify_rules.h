// Checks of schedules without running them: which rank has which buffers, and the rules of the language.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "algorithms/verifier/verify.h"

namespace tutti::verifier {

// Whether this rank's input (output) has that block. REQUIRES: 0 <= block < schedule.blocks.
bool HasInput(const Schedule& schedule, int block);
bool HasOutput(const Schedule& schedule, int block);
// Likewise of another rank.
bool HasInput(const Schedule& schedule, int block, int rank);
bool HasOutput(const Schedule& schedule, int block, int rank);

// "all_reduce by ring, rank 0 of 4, channel 0, lane 1, step 2, chunk 0".
struct Site {
  int channel;
  int lane;
  int step;
  int chunk = 0;
};
std::string Spell(const Schedule& schedule, const Site& site);

// nullopt: the schedules belong together and every step is a legal sentence.
std::optional<std::string> CheckRules(std::span<const Schedule> ranks);

}  // namespace tutti::verifier
