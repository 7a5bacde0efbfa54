#include "topology/detect/hwloc_host.h"

#include <hwloc.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/plain_text.h"
#include "topology/detect/host.h"
#include "topology/graph/complete.h"
#include "topology/graph/link_constants.h"
#include "topology/graph/pci_text.h"

namespace tutti::detect {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

Topology NewTopology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  // Packages carry the CPU's vendor and model. NUMA nodes and processors are always there. A cache of the third level
  // is the last one wherever it exists; where it does not, the node's cores share none.
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
  // A NUMA node that is a part of a package hangs on a group. Without it, the node would get all the package's cores.
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  hwloc_topology_set_flags(
      topology, HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
  return Topology(topology);
}

std::string_view Info(hwloc_obj_t object, const char* name) {
  const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? std::string_view() : value;
}

int NumberInfo(hwloc_obj_t object, const char* name) { return std::atoi(std::string(Info(object, name)).c_str()); }

hwloc_obj_t PackageOf(hwloc_topology_t topology, hwloc_obj_t node) {
  hwloc_obj_t package = nullptr;
  while ((package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, package)) != nullptr) {
    if (hwloc_bitmap_intersects(package->cpuset, node->cpuset)) return package;
  }
  return nullptr;
}

std::vector<int> ProcessorsIn(hwloc_const_bitmap_t set) {
  std::vector<int> processors;
  for (int each = hwloc_bitmap_first(set); each >= 0; each = hwloc_bitmap_next(set, each)) processors.push_back(each);
  return processors;
}

// The node's processors by cache: a cache may span several nodes.
std::vector<std::vector<int>> CachesOf(hwloc_topology_t topology, hwloc_obj_t node) {
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> common(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  std::vector<std::vector<int>> caches;
  hwloc_obj_t cache = nullptr;
  while ((cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L3CACHE, cache)) != nullptr) {
    hwloc_bitmap_and(common.get(), cache->cpuset, node->cpuset);
    if (!hwloc_bitmap_iszero(common.get())) caches.push_back(ProcessorsIn(common.get()));
  }
  return caches;
}

std::vector<topology::CpuDescription> DescribeCpus(hwloc_topology_t topology) {
  std::vector<topology::CpuDescription> cpus;
  const auto architecture = ArchitectureName(Info(hwloc_get_root_obj(topology), "Architecture"));
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (hwloc_bitmap_iszero(node->cpuset)) continue;  // memory without processors
    const hwloc_obj_t package = PackageOf(topology, node);
    topology::CpuDescription cpu{.numa = static_cast<int>(node->os_index), .arch = architecture};
    cpu.vendor = Info(package, "CPUVendor");
    cpu.family = NumberInfo(package, "CPUFamilyNumber");
    cpu.model = NumberInfo(package, "CPUModelNumber");
    if (package != nullptr && hwloc_bitmap_isincluded(node->cpuset, package->cpuset) != 0)
      cpu.package = static_cast<int>(package->logical_index);
    cpu.cores = ProcessorsIn(node->cpuset);
    cpu.caches = CachesOf(topology, node);
    cpus.push_back(std::move(cpu));
  }
  return cpus;
}

// hwloc reports GB/s after encoding. Its split into speed and width does not matter; the widest usual link is taken.
void SetLink(topology::PciSlot& slot, double bandwidth) {
  constexpr double kBitsPerByte = 8;
  constexpr double kTolerance = 0.02;
  for (const int width : {16, 8, 4, 2, 1}) {
    for (const auto& generation : topology::kPciGenerations) {
      const double encoding = generation.speed_gts < 8 ? 8.0 / 10 : 128.0 / 130;  // PCIe Base Specification
      const double raw = generation.speed_gts * encoding / kBitsPerByte * width;
      if (std::abs(raw - bandwidth) > kTolerance * raw) continue;
      slot.speed_gts = generation.speed_gts;
      slot.width = width;
      return;
    }
  }
}

topology::PciDescription DescribePci(hwloc_obj_t object) {
  constexpr int kInterfaceBits = 8;        // the lowest byte of a class, which hwloc leaves out
  const auto& pci = object->attr->pcidev;  // the same in a bridge
  topology::PciDescription place{.bus_id = topology::MakeBusId(pci.domain, pci.bus, pci.dev, pci.func)};
  place.slot.device_class = pci.class_id << kInterfaceBits;
  place.slot.vendor = pci.vendor_id;
  place.slot.device = pci.device_id;
  place.slot.subsystem_vendor = pci.subvendor_id;
  place.slot.subsystem_device = pci.subdevice_id;
  SetLink(place.slot, pci.linkspeed);
  return place;
}

void DescribeBelow(hwloc_obj_t parent, std::vector<topology::PciDescription>& places) {
  for (hwloc_obj_t child = parent->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type == HWLOC_OBJ_BRIDGE && child->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
      DescribeBelow(child, places);  // the CPU's own bridge
    } else if (child->type == HWLOC_OBJ_BRIDGE || child->type == HWLOC_OBJ_PCI_DEVICE) {
      topology::PciDescription place = DescribePci(child);
      DescribeBelow(child, place.children);
      if (!place.children.empty() || topology::MayBeEnd(place.slot)) places.push_back(std::move(place));
    }
  }
}

// Devices hang on the innermost object whose processors are all near; of several NUMA nodes the first is taken.
void DescribeDevices(hwloc_obj_t object, std::vector<topology::CpuDescription>& cpus) {
  std::vector<topology::PciDescription> places;
  DescribeBelow(object, places);
  if (!places.empty()) {
    topology::CpuDescription* nearest = &cpus.front();
    for (auto& cpu : cpus) {
      if (!hwloc_bitmap_isset(object->nodeset, static_cast<unsigned>(cpu.numa))) continue;
      nearest = &cpu;
      break;
    }
    std::move(places.begin(), places.end(), std::back_inserter(nearest->devices));
  }
  for (hwloc_obj_t child = object->first_child; child != nullptr; child = child->next_sibling)
    DescribeDevices(child, cpus);
}

topology::HostDescription Describe(hwloc_topology_t topology) {
  topology::HostDescription host{DescribeCpus(topology)};
  if (!host.cpus.empty()) DescribeDevices(hwloc_get_root_obj(topology), host.cpus);
  return host;
}

}  // namespace

bool HasHwloc() { return true; }

std::optional<topology::HostDescription> DescribeThisByHwloc() {
  const Topology topology = NewTopology();
  if (topology == nullptr) return std::nullopt;
  // The x86 component binds this thread to each processor in turn, for data that is not needed here.
  hwloc_topology_set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  if (hwloc_topology_load(topology.get()) != 0) return std::nullopt;
  topology::HostDescription host = Describe(topology.get());
  return host.cpus.empty() ? std::nullopt : std::optional(std::move(host));
}

topology::HostDescription DescribeByHwlocXml(const std::string& path) {
  const Topology topology = NewTopology();
  if (topology == nullptr) Throw(tuttiSystemError, "hwloc_topology_init failed");
  hwloc_topology_set_io_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_set_xml(topology.get(), path.c_str()) != 0 || hwloc_topology_load(topology.get()) != 0) {
    Throw(tuttiInvalidArgument, "{}: hwloc cannot read this file as hwloc XML", path);
  }
  topology::HostDescription host = Describe(topology.get());
  if (host.cpus.empty()) Throw(tuttiInvalidArgument, "{}: it has no NUMA node with processors", path);
  return host;
}

topology::HostDescription DescribeByHwlocSynthetic(const std::string& text) {
  const Topology topology = NewTopology();
  if (topology == nullptr) Throw(tuttiSystemError, "hwloc_topology_init failed");
  if (hwloc_topology_set_synthetic(topology.get(), text.c_str()) != 0 || hwloc_topology_load(topology.get()) != 0) {
    Throw(tuttiInvalidArgument, "{}: hwloc does not accept this as a synthetic topology", Quoted(text));
  }
  return Describe(topology.get());
}

}  // namespace tutti::detect
