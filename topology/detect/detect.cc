#include "topology/detect/detect.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <utility>

#include "topology/detect/host.h"
#include "topology/detect/hwloc_host.h"
#include "topology/detect/sysfs.h"
#include "topology/graph/assemble.h"
#include "topology/graph/complete.h"

namespace tutti::detect {
namespace {

// Describes one CPU by what the C library knows.
topology::HostDescription DescribeWithoutHwloc() {
  topology::CpuDescription cpu;
  utsname name{};
  if (uname(&name) == 0) cpu.arch = ArchitectureName(name.machine);
  cpu.cores = ListCpus(AllowedCpus());
  return {{std::move(cpu)}, {"built without hwloc: one CPU assumed"}};
}

topology::HostDescription DescribeCpus(const DetectOptions& options) {
  if (!options.hwloc_xml.empty()) return DescribeByHwlocXml(options.hwloc_xml);
  if (!options.hwloc_synthetic.empty()) return DescribeByHwlocSynthetic(options.hwloc_synthetic);
  auto host = options.hwloc ? DescribeThisByHwloc() : std::nullopt;
  return host ? std::move(*host) : DescribeWithoutHwloc();
}

void AddPciDevices(topology::HostDescription& host, const std::string& sysfs) {
  for (auto& root : ReadPciTree(sysfs)) {
    auto near = std::find_if(host.cpus.begin(), host.cpus.end(),
                             [&](const topology::CpuDescription& cpu) { return cpu.numa == root.numa; });
    if (near == host.cpus.end()) {
      near = host.cpus.begin();
      if (host.cpus.size() > 1) {
        host.notes.push_back(fmt::format("{}: its NUMA node, {}, is not among the nodes in use: NUMA{} assumed",
                                         root.place.bus_id, root.numa, near->numa));
      }
    }
    near->devices.push_back(std::move(root.place));
  }
}

void AddGpus(topology::HostDescription& host, const DetectOptions& options) {
  const bool gdr = !options.sysfs.empty() && HasGpuDirectRdma(options.sysfs);
  const std::vector<NvmlGpu> gpus = QueryNvml(options.nvml);
  topology::ForEachPlaceOf(host, [&](topology::PciDescription& place) {
    const auto gpu =
        std::find_if(gpus.begin(), gpus.end(), [&](const NvmlGpu& told) { return told.bus_id == place.bus_id; });
    if (gpu == gpus.end()) return;
    place.gpu = topology::GpuDescription{
        .number = static_cast<int>(gpu - gpus.begin()), .sm = gpu->sm, .gdr = gdr, .nvlinks = gpu->nvlinks};
  });
}

void AddPorts(topology::HostDescription& host, const std::string& sysfs) {
  for (auto& card : ReadNetwork(sysfs)) {
    bool placed = false;
    topology::ForEachPlaceOf(host, [&](topology::PciDescription& place) {
      if (card.bus_id.empty() || place.bus_id != card.bus_id) return;
      place.ports = card.ports;
      placed = true;
    });
    // An interface without a card sits in the first CPU.
    if (!placed) host.cpus.front().devices.push_back({.ports = card.ports});
  }
}

// Removes what is known to be of no use: a card without a port that is up, a GPU that the driver does not report. Its
// class must not make it pass for a usable device.
void Drop(std::vector<topology::PciDescription>& places, const DetectOptions& options) {
  std::erase_if(places, [&](topology::PciDescription& place) {
    const bool was_leaf = place.children.empty();
    Drop(place.children, options);
    if (place.is_end() || !was_leaf) return !place.is_end() && place.children.empty();
    return topology::MayBeGpu(place.slot) ? !options.nvml.empty() : !options.sysfs.empty();
  });
}

}  // namespace

topology::HostDescription DescribeHost(const DetectOptions& options) {
  topology::HostDescription host = DescribeCpus(options);
  if (!options.sysfs.empty()) {
    if (options.hwloc_xml.empty()) AddPciDevices(host, options.sysfs);
    AddPorts(host, options.sysfs);
  }
  if (!options.nvml.empty()) AddGpus(host, options);
  for (auto& cpu : host.cpus) Drop(cpu.devices, options);
  return host;
}

topology::System DetectHost(const DetectOptions& options) {
  std::vector<topology::HostDescription> hosts = {DescribeHost(options)};
  topology::CompleteByDefaults(hosts.front());
  return topology::Assemble(hosts);
}

}  // namespace tutti::detect
