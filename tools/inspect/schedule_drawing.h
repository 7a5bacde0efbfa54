// A picture of a schedule: ranks as columns with a track for each lane, time downwards, arrows where slots travel. Time
// is counted in steps: each begins as soon as the one before it in its lane, what it comes after and what it receives
// are there, and slots are never short.
//
// Thread-safety: pure function.
#pragma once

#include <span>
#include <string>

#include "algorithms/schedule/schedule.h"

namespace tutti::tools {

// One channel, one chunk of every block, as an SVG document. Steps that never begin are left out, and counted.
// REQUIRES: one schedule per rank, in order, which keep the rules of schedule.h.
std::string DrawSchedules(std::span<const Schedule> ranks, int channel, const std::string& name);

}  // namespace tutti::tools
