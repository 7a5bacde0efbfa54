// Which libraries this machine can measure, and how their ranks are started. Reads the file system only.
#pragma once

#include <string>
#include <vector>

#include "bench/driver/process.h"

namespace tutti::bench {

// Where ranks run: here, or spread over the hosts of a cluster on this machine (scripts/cluster.sh).
struct ClusterShape {
  int hosts = 1;
  int nics = 1;           // of a host
  std::string bandwidth;  // of an interface, as cluster.sh takes it; empty: as fast as it goes
};

inline constexpr char kTutti[] = "tutti";
inline constexpr char kNccl[] = "nccl";

// Every peer that tutti-bench knows, whether installed or not.
std::vector<std::string> KnownPeers();
// "" if it can be started, else what is missing.
std::string WhyMissing(const std::string& library);
// "all" stands for every installed peer that works on this memory: a device's, or the host's. Throws
// std::invalid_argument for names that are unknown, not installed or not for this memory.
std::vector<std::string> ResolvePeers(const std::vector<std::string>& names, bool device);
// Can several of its ranks be threads of one process?
bool RunsInThreads(const std::string& library);

// Command lines that together start `ranks` ranks. REQUIRES: hosts divide ranks; with several, a rank is a process.
std::vector<std::vector<std::string>> CommandsFor(const std::string& library, int ranks, int threads,
                                                  const ClusterShape& cluster);
Environment EnvironmentFor(const std::string& library);

// The directory of this executable, where its workers are too.
std::string OwnDirectory();

}  // namespace tutti::bench
