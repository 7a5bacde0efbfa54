// Systems for tests: hosts put together by hand or at random, and the files in topology/testdata.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <random>
#include <string>
#include <vector>

#include "topology/graph/system.h"

namespace tutti::samples {

// Files that describe their GPUs and NICs completely.
inline constexpr std::array<const char*, 11> kCompleteFiles = {
    "aws_p4d_full", "azure_ncv4-topo", "azure_ndv4_full",   "azure_ndv5_full",     "dgx1v", "dgxa100", "dgxh100",
    "hgxa100_4gpu", "l40s_8gpu",       "oci_H100-topology", "workstation_2gpu_amd"};

inline std::string PathOf(const std::string& file) { return "topology/testdata/" + file + ".xml"; }

inline int Add(topology::System& system, topology::DeviceKind kind, int number) {
  topology::Device device;
  device.kind = kind;
  device.host = kind == topology::DeviceKind::network ? -1 : 0;
  device.number = number;
  device.name = std::string(topology::NameOf(kind)) + std::to_string(number);
  system.devices.push_back(device);
  return static_cast<int>(system.devices.size()) - 1;
}

// CPUs joined in a chain, switches below them, and below each a few GPUs and NICs, with bandwidths of a few kinds; some
// GPUs are joined by NVLinks.
inline topology::System RandomSystem(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  const auto pci = [&] { return 12.0 * (1 << pick(0, 2)); };
  topology::System system;
  const int network = Add(system, topology::DeviceKind::network, 0);
  std::vector<int> gpus;
  int nics = 0;
  int previous_cpu = -1;
  for (int c = 0, cpus = pick(1, 4); c < cpus; ++c) {
    const int cpu = Add(system, topology::DeviceKind::cpu, c);
    if (previous_cpu >= 0) system.Join(previous_cpu, cpu, topology::LinkKind::socket, pick(5, 30), 0.1);
    previous_cpu = cpu;
    for (int s = 0, switches = pick(1, 2); s < switches; ++s) {
      const int pci_switch = Add(system, topology::DeviceKind::pci_switch, s);
      system.Join(cpu, pci_switch, topology::LinkKind::pci, pci(), 0.5);
      for (int g = 0, count = pick(0, 2); g < count; ++g) {
        gpus.push_back(Add(system, topology::DeviceKind::gpu, static_cast<int>(gpus.size())));
        system.Join(pci_switch, gpus.back(), topology::LinkKind::pci, pci(), 0.5);
      }
      for (int n = 0, count = pick(0, 2); n < count; ++n) {
        const int nic = Add(system, topology::DeviceKind::nic, nics++);
        system.Join(pci_switch, nic, topology::LinkKind::pci, pci(), 0.5);
        system.devices[nic].speed_gbit = 100.0 * pick(1, 4);
        system.Join(nic, network, topology::LinkKind::network, system.devices[nic].speed_gbit / 8, 0.6);
      }
    }
  }
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      if (pick(0, 3) == 0) system.Join(gpus[a], gpus[b], topology::LinkKind::nvlink, 20.0 * pick(1, 3), 0.6);
    }
  }
  return system;
}

}  // namespace tutti::samples
