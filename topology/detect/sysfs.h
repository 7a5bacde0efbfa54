// PCI devices and network ports from Linux's sysfs. For all devices, only files that the kernel answers from memory are
// read. Files that make the kernel ask the device (a PCI link's speed) are read only for GPUs, network cards and their
// bridges: in a virtual machine each such read costs tens of microseconds, and reading a configuration space
// milliseconds.
//
// Thread-safety: functions without state. `root` is where sysfs is mounted, "/sys"; tests have their own tree. Missing
// entries are left out.
#pragma once

#include <string>
#include <vector>

#include "topology/graph/description.h"

namespace tutti::detect {

struct RootPlace {
  int numa = 0;  // -1: unknown to the kernel
  topology::PciDescription place;
};

// GPUs, network cards and the bridges above them, by bus id. GPUs and ports are not filled in.
std::vector<RootPlace> ReadPciTree(const std::string& root);

struct NetworkCard {
  std::string bus_id = {};  // empty: none
  std::vector<topology::PortDescription> ports = {};
};

// Ports that are up, by name: InfiniBand devices (also RoCE) and the Ethernet interfaces of other cards. Virtual
// interfaces only if there is nothing else, loopback only if there is no virtual interface either.
std::vector<NetworkCard> ReadNetwork(const std::string& root);

// Whether the kernel has the module that lets network cards reach GPU memory.
bool HasGpuDirectRdma(const std::string& root);

}  // namespace tutti::detect
