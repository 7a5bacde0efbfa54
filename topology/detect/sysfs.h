// What Linux's sysfs says of PCI devices and network ports. Only files that the kernel answers from memory are read for
// all devices; what makes it ask the device (a PCI link's speed) is read for GPUs, network cards and their bridges
// alone, as in a virtual machine each such question costs tens of microseconds, and reading a configuration space
// milliseconds.
//
// Thread-safety: functions without state. `root` is where sysfs is mounted, "/sys"; tests have their own tree. What is
// not there is left out.
#pragma once

#include <string>
#include <vector>

#include "topology/graph/description.h"

namespace tutti {

struct RootPlace {
  int numa = 0;  // -1: the kernel does not know
  PciDescription place;
};

// GPUs, network cards and the bridges above them, by bus id. GPUs and ports are not filled in.
std::vector<RootPlace> ReadPciTree(const std::string& root);

struct NetworkCard {
  std::string bus_id = {};  // empty: none
  std::vector<PortDescription> ports = {};
};

// Ports that are up, by name: InfiniBand devices (also RoCE) and the Ethernet interfaces of other cards. Virtual
// interfaces only if there is nothing else, loopback only if there is not even one of them.
std::vector<NetworkCard> ReadNetwork(const std::string& root);

// Whether the kernel has the module by which network cards reach GPU memory.
bool HasGpuDirectRdma(const std::string& root);

}  // namespace tutti
