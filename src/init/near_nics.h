// Which NICs serve a rank: the nearest to where it runs. A host's ranks use its NICs evenly, and ranks of one place on
// their hosts use NICs of one place, so that messages between these stay on a rail.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/init/meeting.h"
#include "topology/graph/paths.h"
#include "topology/graph/system.h"
#include "transports/shm/memory_nodes.h"

namespace tutti::init {

struct NearNics {
  std::vector<std::string> names;  // nearest first; none where the system has none that is known
  // Of all NICs of the host, also other ranks', by name; none where the system does not have the rank's device.
  std::map<std::string, topology::PathClass> distances;
  int memory_node = shm::kNoMemoryNode;  // the NUMA node nearest to the first one, where the host has several
};

// The GPUs (devices) of a host's ranks. `bus_ids`: by rank; of those that the system lacks, ranks have its other GPUs in turn.
// None where it has no GPU.
std::vector<int> GpusOfRanks(const topology::System& system, int host, const std::vector<int>& ranks,
                             const std::vector<std::uint64_t>& bus_ids);

// By rank: `bus_ids` of their GPUs, as above, or the `processors` that they may run on.
NearNics NicsNearGpus(const Meeting& meeting, const topology::System& system,
                      const std::vector<std::uint64_t>& bus_ids);
NearNics NicsNearProcessors(const Meeting& meeting, const topology::System& system,
                            const std::vector<std::vector<int>>& processors);

}  // namespace tutti::init
