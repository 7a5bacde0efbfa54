// Writes a simulated timeline in the trace-event format of browsers' trace viewers: a process for each rank with a
// thread for each lane, and one for each resource with the flows that cross it.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "selection/simulator/simulate.h"

namespace tutti::tools {

// Throws if the file cannot be written.
void WriteTrace(const std::string& path, const cost_model::Machine& machine, const simulator::SimulatedCall& call,
                const simulator::Timeline& timeline);

}  // namespace tutti::tools
