// A picture of a schedule: ranks as columns with a track for each lane, time downwards, arrows for travelling slots.
// Time is counted in steps. Each step begins once the step before it in its lane, the steps it depends on and its input
// are done; slots never run out.
//
// Thread-safety: pure function.
#pragma once

#include <span>
#include <string>

#include "algorithms/schedule/schedule.h"

namespace tutti::tools {

// Draws one channel, and one chunk of every block, as an SVG document. Omits and counts steps that never begin.
// REQUIRES: one schedule per rank, in order, each obeying the rules of schedule.h.
std::string DrawSchedules(std::span<const schedule::Schedule> ranks, int channel, const std::string& name);

}  // namespace tutti::tools
