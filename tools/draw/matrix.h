// How everything is joined to everything, as the table that people know from `nvidia-smi topo -m`: GPUs (or NUMA nodes,
// where there are none) and NICs, the class of the path between each two, and which CPUs are near.
//
//             GPU0  GPU1  NIC0  CPU affinity  NUMA affinity
//       GPU0   X    NV12  PIX   0-23          0
//       GPU1  NV12   X    SYS   24-47         1
//       NIC0  PIX   SYS    X
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "topology/graph/system.h"

namespace tutti {

// With its legend; ends with a newline.
std::string TopologyMatrix(const System& system, int host);

// "0-3,8,10-11" of ascending numbers; "N/A" of none.
std::string NumberRanges(const std::vector<int>& numbers);

// How many NVLinks make so much bandwidth from this GPU.
int NvlinkCount(const Device& gpu, double bandwidth);

}  // namespace tutti
