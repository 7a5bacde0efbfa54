// A host as it is described, before it is a graph: a tree of devices, with gaps where the source (an XML file, hwloc)
// says nothing. complete.h fills the gaps, assemble.h makes the graph.
//
// Thread-safety: value types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/graph/system.h"

namespace tutti::topology {

inline constexpr int kUnknown = -1;

// The classes that matter, of PCI's 24 bits (PCI Code and ID Assignment Specification).
inline constexpr int kClassGpu = 0x030200;
inline constexpr int kClassEthernet = 0x020000;
inline constexpr int kClassInfiniband = 0x020700;
inline constexpr int kClassPciBridge = 0x060400;
inline constexpr int kClassNvswitch = 0x068000;

// One port of a network card.
struct PortDescription {
  std::string name = {};
  int number = kUnknown;
  int port = kUnknown;
  double speed_gbit = 0;  // 0: unknown
  double latency = 0;     // us from port to port; 0: unknown
  std::optional<bool> gdr = {};
  std::string guid = {};
};

enum class NvlinkEnd : std::uint8_t { gpu, nvswitch, cpu };

struct NvlinkDescription {
  NvlinkEnd end = NvlinkEnd::gpu;
  std::string bus_id = {};  // of the GPU at the other end
  int count = 0;
  double bandwidth = 0;  // GB/s of each, where the source says; 0: by the GPU's generation

  bool operator==(const NvlinkDescription&) const = default;
};

struct GpuDescription {
  int number = kUnknown;
  int rank = kUnknown;
  int sm = 0;  // 0: unknown
  std::optional<bool> gdr = {};
  std::optional<std::vector<NvlinkDescription>> nvlinks = {};  // absent: unknown; empty: it has none
};

// A place in the PCI tree: a bridge, a GPU, a card, something else, or not yet known which.
struct PciDescription {
  std::string bus_id = {};  // empty: inside the CPU
  PciSlot slot = {};
  std::optional<GpuDescription> gpu = {};
  std::vector<PortDescription> ports = {};
  std::vector<PciDescription> children = {};

  bool is_end() const { return gpu.has_value() || !ports.empty(); }
};

struct CpuDescription {
  int numa = 0;
  int rank = kUnknown;
  std::string arch = {};
  std::string vendor = {};
  int family = 0;
  int model = 0;
  int package = kUnknown;
  std::vector<int> cores = {};
  std::vector<std::vector<int>> caches = {};  // as in Device
  std::vector<PciDescription> devices = {};
};

struct HostDescription {
  std::vector<CpuDescription> cpus;
  std::vector<std::string> notes = {};  // what was ignored or assumed, for people
};

}  // namespace tutti::topology
