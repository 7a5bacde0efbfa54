// The machine that a command's options describe: processes in the shared memory of one host, perhaps of several caches,
// on several hosts joined by TCP, or hosts of GPUs from a topology.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "selection/cost_model/candidates.h"
#include "selection/cost_model/machine.h"

namespace CLI {
class App;
}

namespace tutti::tools {

struct TargetOptions {
  std::string topology;  // a file; empty: shared memory
  std::string one_gpu;   // all ranks share one GPU of this name; empty: they do not
  int nodes = 1;
  int ranks = 0;             // in all; 0: one for each GPU, or core
  std::string host;          // one, as hwloc's synthetic description; ranks are pinned to its processors in turn
  int cores = 0;             // shared by all ranks in shared memory; AddTargetOptions sets it to this host's
  double network = 10'000;   // Mbit/s, each way, of a host without a topology
  bool one_machine = false;  // such hosts are namespaces of one machine and share its cores
  std::string calibration;
};
void AddTargetOptions(CLI::App& command, TargetOptions& options);

// A machine and the kind of its ranks.
struct Target {
  cost_model::Machine machine;
  bool gpus = true;
  int blocks = 0;  // that the one GPU of all ranks runs at the same time; 0: ranks have GPUs of their own
  // Such GPUs run the library's own blocks and slots. Otherwise they run NCCL's, which published times are of.
  bool as_library = false;
  bool joined = true;  // by NVLink, every two of a host's GPUs
};
// `as_library`: see Target. Throws tuttiInvalidArgument if the options contradict each other or a file is wrong.
Target TargetOf(const TargetOptions& options, bool as_library = false);

// The conditions of a communicator of all its ranks, with every choice free.
cost_model::TuningContext ConditionsOf(const Target& target);

}  // namespace tutti::tools
