// The topology of a communicator: on each host the lowest rank examines its machine, or reads the file it is configured
// to trust; all ranks exchange the results and merge them into one system.
//
// Thread-safety: pure but for the machine and the files.
#pragma once

#include <string>

#include "src/init/meeting.h"
#include "topology/graph/system.h"

namespace tutti::init {

// Collective. Hosts are numbered in the order of their lowest ranks. Throws on every rank, naming the rank whose file is
// wrong or unreadable. The rank that detects writes TUTTI_TOPO_DUMP_FILE.
topology::System Survey(const Meeting& meeting);

// "2 CPUs, 8 GPUs, 8 NICs on 1 host".
std::string Summary(const topology::System& system);

}  // namespace tutti::init
