// Positions of one host's devices in a picture: CPUs in the top row, below each the devices attached to it by PCI (a
// switch is a bar over the devices below it), GPUs and NICs in the bottom row.
//
// Invariants: no two boxes overlap; a device stands within the width of its parent.
//
// Thread-safety: value types and pure functions.
#pragma once

#include <map>
#include <vector>

#include "base/report/svg.h"
#include "topology/graph/system.h"

namespace tutti::tools {

using report::Box;

struct HostLayout {
  std::map<int, Box> boxes = {};     // by device: CPUs, switches, GPUs, NICs
  std::vector<int> tree_links = {};  // from each device to one attached to it
  std::vector<int> gpus = {};        // from left to right
  double width = 0;
  double height = 0;
};

// Places the upper left corner at the origin.
HostLayout LayOutHost(const topology::System& system, int host);

}  // namespace tutti::tools
