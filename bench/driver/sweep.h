// One collective over sizes, types, operators and roots: the main job of tutti-bench. Thread-safety: one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bench/driver/options.h"
#include "bench/driver/team.h"
#include "bench/report/record.h"
#include "bench/worker/tcp_probe.h"

namespace tutti::bench {

// Starts Tutti's and the peers' ranks according to the options; reports and skips peers that cannot start. Throws
// TeamLost if Tutti cannot.
std::vector<std::unique_ptr<Team>> StartTeams(const Options& options, int ranks);

Json ToJson(const ClusterShape& cluster);

// Plain TCP between the first ranks of the first two hosts, in the processes of the first library; nullopt on one host.
std::optional<TcpLimits> ProbeHosts(const Options& options, int ranks, const std::vector<std::unique_ptr<Team>>& teams);

// Ends the peers that have degenerated in this record, which shows them; returns their names.
std::vector<std::string> LeaveOutDegenerate(std::vector<std::unique_ptr<Team>>& teams, const Record& record);

// Measures, prints, and writes the files. Returns the exit status: 0 if every result was right and Tutti survived.
int RunSweep(const Options& options, std::vector<std::unique_ptr<Team>> teams);

}  // namespace tutti::bench
