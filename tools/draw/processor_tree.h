// A host's processors as text, by socket, NUMA node and last-level cache, with the ranks that run on them.
//
// Thread-safety: pure function.
#pragma once

#include <string>
#include <vector>

#include "topology/graph/system.h"

namespace tutti::tools {

// One line for each cache, or for a node whose caches are not known; ends with a newline. `processors`: by rank, those
// that it may run on; empty: no ranks are shown. A last line names the parts in which the ranks work together.
std::string ProcessorTree(const topology::System& system, int host, const std::vector<std::vector<int>>& processors);

}  // namespace tutti::tools
