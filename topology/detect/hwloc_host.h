// CPUs, their NUMA nodes and caches as hwloc sees them: of this machine, of a machine described in hwloc's XML (with its
// PCI devices), or of one made up by a synthetic string.
//
// For this machine, sysfs.h reads PCI: hwloc would read every device's configuration space, which took 4 ms a device in
// a virtual machine. Without that, loading takes 1.4 ms, with caches or without, and opening hwloc's plugins 4 (measured
// on 2 virtual CPUs, hwloc 2.9).
//
// Thread-safety: functions without state.
#pragma once

#include <optional>
#include <string>

#include "topology/graph/description.h"

namespace tutti::detect {

// False: this build has no hwloc, so the functions below return nothing or throw.
bool HasHwloc();

// The processors are those that this process may use (by its control group). nullopt if hwloc fails.
std::optional<topology::HostDescription> DescribeThisByHwloc();
// Throw tuttiInvalidArgument if hwloc does not understand them.
topology::HostDescription DescribeByHwlocXml(const std::string& path);
topology::HostDescription DescribeByHwlocSynthetic(const std::string& text);

}  // namespace tutti::detect
