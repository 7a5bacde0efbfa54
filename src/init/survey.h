// The topology of a communicator: on each host the lowest rank examines its machine, or reads the file it is configured
// to trust; all ranks exchange the results and merge them into one system.
//
// Thread-safety: pure but for the machine and the files.
#pragma once

#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/settings.h"
#include "topology/graph/system.h"
#include "transports/shm/descriptor_exchange.h"

namespace tutti::init {

// Collective. `hosts`: each rank's, by rank; equal names are one host. Hosts are numbered in the order of their lowest
// ranks. Throws on every rank, naming the rank whose file is wrong or unreadable. The rank that detects writes
// TUTTI_TOPO_DUMP_FILE.
topology::System Survey(const Settings& settings, int rank, const std::vector<std::string>& hosts,
                        const AllGather& all_gather);

// "2 CPUs, 8 GPUs, 8 NICs on 1 host".
std::string Summary(const topology::System& system);

}  // namespace tutti::init
