// The connections of a host as the familiar table of `nvidia-smi topo -m`: GPUs (or NUMA nodes, if there are none) and
// NICs, the class of the path between each two, and the nearby CPUs.
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

namespace tutti::tools {

// Includes the legend; ends with a newline.
std::string TopologyMatrix(const topology::System& system, int host);

// The number of NVLinks of this GPU that add up to `bandwidth`.
int NvlinkCount(const topology::Device& gpu, double bandwidth);

}  // namespace tutti::tools
