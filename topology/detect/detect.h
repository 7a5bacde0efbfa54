// What this host is made of: CPUs from hwloc, PCI devices and network ports from sysfs, GPUs and NVLinks from NVML.
// Whatever is absent is left out; without hwloc there is one CPU with the processors that this process may use. One
// process a host is enough to ask: the answer is the same for all.
//
// Thread-safety: functions without state. Takes milliseconds (hwloc_host.h), and with GPUs as long as NVML takes to
// start.
#pragma once

#include <string>

#include "topology/detect/nvml.h"
#include "topology/graph/description.h"
#include "topology/graph/system.h"

namespace tutti {

// Where to look; tests look elsewhere.
struct DetectOptions {
  bool hwloc = true;                 // false: as where hwloc fails
  std::string hwloc_synthetic = {};  // if set: CPUs by hwloc's synthetic description
  std::string hwloc_xml = {};        // if set: CPUs and PCI devices by this file of hwloc's
  std::string sysfs = "/sys";        // empty: PCI devices only from hwloc_xml, and network ports by their class
  std::string nvml = kNvmlLibrary;   // empty: GPUs by their class
};

// The tree, for completing a partial file about this host (xml.h).
HostDescription DescribeHost(const DetectOptions& options = {});

// The graph.
System DetectHost(const DetectOptions& options = {});

}  // namespace tutti
