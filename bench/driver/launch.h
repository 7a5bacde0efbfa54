// Which libraries this machine can measure, and how their ranks are started. Only reads the file system.
#pragma once

#include <string>
#include <vector>

#include "bench/driver/process.h"

namespace tutti::bench {

// Where ranks run: on this host, or spread over the hosts of a cluster on this machine (scripts/cluster.sh).
struct ClusterShape {
  int hosts = 1;
  int nics = 1;           // of a host
  std::string bandwidth;  // of an interface, as cluster.sh takes it; empty: unlimited
};

inline constexpr char kTutti[] = "tutti";
inline constexpr char kFlat[] = "flat";  // the naive program: no library, so never the best of them
inline constexpr char kNccl[] = "nccl";

// Every peer that tutti-bench knows, whether installed or not.
std::vector<std::string> KnownPeers();
// "" if it can be started, else the reason.
std::string WhyMissing(const std::string& library);
// "all" stands for every installed peer that supports the chosen memory, a device's or the host's. Throws
// UsageError for names that are unknown, not installed or unsuited to that memory.
std::vector<std::string> ResolvePeers(const std::vector<std::string>& names, bool device);
// Whether several of its ranks can be threads of one process.
bool RunsInThreads(const std::string& library);

// Command lines that together start `ranks` ranks. REQUIRES: hosts divide ranks; with several hosts, each rank is a
// process.
std::vector<std::vector<std::string>> CommandsFor(const std::string& library, int ranks, int threads,
                                                  const ClusterShape& cluster);
// The settings that the bench gives the library on so many ranks and hosts.
Environment EnvironmentFor(const std::string& library, int ranks, int hosts);

// The directory of this executable and its workers.
std::string OwnDirectory();

}  // namespace tutti::bench
