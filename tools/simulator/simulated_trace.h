// Simulated timelines in the trace-event format of browsers' trace viewers: a process for each rank with a thread for
// each lane, and one for each resource with the flows that cross it. Several calls stand side by side and begin at the
// same time.
//
// Thread-safety: one thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "selection/simulator/simulate.h"

namespace tutti::tools {

class SimulatedTrace {
 public:
  // `name` begins the names of the call's processes; empty for the only call.
  void Add(const std::string& name, const cost_model::Machine& machine, const simulator::SimulatedCall& call,
           const simulator::Timeline& timeline);
  // Throws if the file cannot be written. The trace is empty then.
  void Write(const std::string& path);

 private:
  nlohmann::ordered_json events_ = nlohmann::ordered_json::array();
  int processes_ = 0;  // of the calls so far
};

}  // namespace tutti::tools
