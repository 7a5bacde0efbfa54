// Tests on GPU memory that run with ranks as threads and as processes, on one device and on several.
//
// Thread-safety: value types, and functions without state.
#pragma once

#include <fstream>
#include <ostream>
#include <sstream>
#include <string>

#include "testing/device_rank.h"

namespace tutti::testing {

// What this process has mapped of the fake GPU's physical memory, also of other processes'.
inline std::size_t MappedOfFakeGpu() {
  std::ifstream maps("/proc/self/maps");
  std::size_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("tutti-fake_gpu-memory") == std::string::npos) continue;
    std::istringstream range(line);
    std::size_t begin = 0, end = 0;
    char dash = 0;
    range >> std::hex >> begin >> dash >> end;
    bytes += end - begin;
  }
  return bytes;
}

struct Places {
  bool threads;
  const char* devices;
};
inline void PrintTo(const Places& places, std::ostream* out) {
  *out << (places.threads ? "threads, " : "processes, ") << places.devices << " devices";
}

class DeviceInPlaces : public Device, public ::testing::WithParamInterface<Places> {
 protected:
  static RunOptions options() {
    return {.threads = GetParam().threads, .environment = {{"TUTTI_FAKE_GPU_DEVICES", GetParam().devices}}};
  }
};

inline auto AllPlaces() {
  return ::testing::Values(Places{true, "1"}, Places{false, "1"}, Places{true, "3"}, Places{false, "3"});
}
inline std::string NameOfPlaces(const ::testing::TestParamInfo<Places>& info) {
  return std::string(info.param.threads ? "Threads" : "Processes") + info.param.devices;
}

}  // namespace tutti::testing
