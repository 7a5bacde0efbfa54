// The system as one graph: its devices, and the links that join them. One host's graph is detected or read from XML;
// all hosts' graphs, fused, are the system that a communicator spans.
//
//     CPU 0 ===== CPU 1            socket links (UPI, QPI, Infinity Fabric)
//       |           |
//     switch      switch           PCI links
//     |    |      |    |
//    GPU  NIC    GPU  NIC
//     |    |      |    |
//     |  network  |  network       every NIC's port hangs on the one network, by which hosts reach each other
//     +-NVSwitch--+                NVLink
//
// Thread-safety: value types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topology {

enum class DeviceKind : std::uint8_t {
  cpu,         // one NUMA node: its cores and its memory
  pci_switch,  // also a PCI bridge
  gpu,
  nvswitch,  // one device stands for all NVSwitches of a host
  nic,       // one port of a network card
  network,   // joins all NICs; at most one in a system
};

enum class LinkKind : std::uint8_t { nvlink, pci, socket, network };

std::string_view NameOf(DeviceKind kind);
std::string_view NameOf(LinkKind kind);

// A device's PCI data. Zero: unknown.
struct PciSlot {
  int device_class = 0;  // 24 bits, 0x030200: a GPU without a display
  int vendor = 0;        // 16 bits each
  int device = 0;
  int subsystem_vendor = 0;
  int subsystem_device = 0;
  double speed_gts = 0;  // GT/s of the narrowest link on the way to the device that it is joined to
  int width = 0;         // lanes of that link

  bool operator==(const PciSlot&) const = default;
};

// One vertex. Fields that do not belong to its kind keep their defaults.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int host = 0;             // -1: the network, which is no host's
  int number = 0;           // cpu: NUMA id; gpu, nic: the device's number on its host, from 0
  std::string name = {};    // for people: "GPU3", "NUMA0", "mlx5_0"
  std::string bus_id = {};  // "0000:10:1c.0"; empty where there is none

  int rank = -1;                // gpu (or cpu, where ranks are host processes): the rank that runs on it, if known
  int sm = 0;                   // gpu: compute capability, 80 for 8.0; 0: unknown
  bool gdr = false;             // gpu, nic: can take part in GPUDirect RDMA
  std::string arch = {};        // cpu: "x86_64", "arm64", "ppc64"
  std::string vendor = {};      // cpu: "GenuineIntel", "AuthenticAMD", ...
  int family = 0;               // cpu
  int model = 0;                // cpu
  int package = -1;             // cpu: the number of the socket that it is in; -1: unknown
  std::vector<int> cores = {};  // cpu: processors that may be used, ascending
  // cpu: the same by the last-level cache that they share, ascending; empty: unknown
  std::vector<std::vector<int>> caches = {};
  double speed_gbit = 0;  // nic: of the port, one direction
  int port = 0;           // nic
  std::string guid = {};  // nic: ports of one card share it
  PciSlot pci = {};       // pci_switch, gpu, nic

  bool operator==(const Device&) const = default;
};

// A directed edge; a full-duplex link is two. All traffic that crosses it in this direction shares its bandwidth.
struct Link {
  int from = 0;  // indices into System::devices
  int to = 0;
  LinkKind kind = LinkKind::pci;
  double bandwidth = 0;  // GB/s: 10^9 bytes a second that data can use, after encoding and protocol
  double latency = 0;    // us

  bool operator==(const Link&) const = default;
};

struct System {
  std::vector<Device> devices;
  std::vector<Link> links;

  // Indices of all devices of a kind, in order; of one host (or of all, -1).
  std::vector<int> All(DeviceKind kind, int host = -1) const;
  int hosts() const;  // 1 + the largest host number; 0 for an empty system
  // Adds both directions.
  void Join(int a, int b, LinkKind kind, double bandwidth, double latency);

  bool operator==(const System&) const = default;
};

}  // namespace tutti::topology
