// Describes this host: CPUs from hwloc, PCI devices and network ports from sysfs, GPUs and NVLinks from NVML. Absent
// parts are left out; without hwloc there is one CPU with the processors that this process may use. One process per
// host suffices: the answer is the same for all.
//
// Thread-safety: functions without state. Takes milliseconds (hwloc_host.h), and with GPUs as long as NVML takes to
// start.
#pragma once

#include <string>

#include "topology/detect/nvml.h"
#include "topology/graph/description.h"
#include "topology/graph/system.h"

namespace tutti::detect {

// The sources; tests use others.
struct DetectOptions {
  bool hwloc = true;                 // false: as if hwloc failed
  std::string hwloc_synthetic = {};  // if set: CPUs by hwloc's synthetic description
  std::string hwloc_xml = {};        // if set: CPUs and PCI devices by this file of hwloc's
  std::string sysfs = "/sys";        // empty: PCI devices only from hwloc_xml, and network ports by their class
  std::string nvml = kNvmlLibrary;   // empty: GPUs by their class
};

// The tree, for completing a partial file about this host (xml.h).
topology::HostDescription DescribeHost(const DetectOptions& options = {});

// The graph.
topology::System DetectHost(const DetectOptions& options = {});

}  // namespace tutti::detect
