// GPUs and their NVLinks as NVIDIA's management library reports them. The library belongs to the driver, so it is
// loaded on demand: most machines have none, and then no GPUs are reported.
//
// Thread-safety: functions without state (NVML itself counts its users).
#pragma once

#include <string>
#include <vector>

#include "topology/graph/description.h"

namespace tutti::detect {

struct NvmlGpu {
  std::string bus_id = {};  // as sysfs writes it
  std::string uuid = {};    // "GPU-..."; the same on every boot
  int sm = 0;
  std::vector<topology::NvlinkDescription> nvlinks = {};  // those that are up; links to the same end are combined
};

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// In the library's order, which is by bus id. Empty if there is no library, no driver, or no GPU.
std::vector<NvmlGpu> QueryNvml(const std::string& library = kNvmlLibrary);

}  // namespace tutti::detect
