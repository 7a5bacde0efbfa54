// The topology XML that NCCL users have (version 1; NCCL_TOPO_FILE): system > cpu > pci > gpu > nvlink, and pci > nic >
// net. Partial files are completed (complete.h) by what was detected on this machine, or from PCI classes and
// documented defaults. Files are not trusted: they are refused with tuttiInvalidArgument, "FILE:LINE: reason".
//
//     <system version="1">
//       <cpu numaid="0" affinity="000000ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
//         <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">      a switch
//           <pci busid="0000:11:00.0" class="0x030200" ...>
//             <gpu dev="0" sm="90" rank="0" gdr="1">
//               <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>                        to the
//               NVSwitches
//             </gpu>
//           </pci>
//           <pci busid="0000:18:00.0" class="0x020700" ...>
//             <nic>
//               <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0" guid="0x2000" gdr="1"/>  Mbit/s, us
//             </nic>
//           </pci>
//         </pci>
//       </cpu>
//     </system>
//
// Extensions that other readers ignore: cpu has `rank` where ranks are host processes, `package` (its socket), and
// `caches`: an affinity for each last-level cache, separated by semicolons.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/description.h"
#include "topology/graph/system.h"

namespace tutti::xml {

// A file describes one host, or a few that share NVLink. Larger systems are made of several (fuse.h).
inline constexpr int kMaxGpusInFile = 1024;

struct TopologyFile {
  topology::System system;
  std::vector<std::string> notes;  // what was ignored or assumed
};

// `name` appears in messages. `detected` is this machine, if the file is about it; it fills gaps by bus id.
TopologyFile ParseTopology(std::string_view text, const std::string& name,
                           const topology::HostDescription* detected = nullptr);
TopologyFile ReadTopologyFile(const std::string& path, const topology::HostDescription* detected = nullptr);

// Writes one host of the system. Reading it gives the same graph again, as far as its bandwidths come from the table of
// link constants: the format has no place for others.
std::string WriteTopology(const topology::System& system, int host = 0);

}  // namespace tutti::xml
