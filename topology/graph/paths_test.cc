#include "topology/graph/paths.h"

#include <gtest/gtest.h>

#include <cmath>

#include "topology/xml/xml.h"

namespace tutti::topology {
namespace {

System Load(const std::string& name) { return xml::ReadTopologyFile("topology/testdata/" + name + ".xml").system; }

int Find(const System& system, DeviceKind kind, int number) {
  for (const int index : system.All(kind)) {
    if (system.devices[index].number == number) return index;
  }
  ADD_FAILURE() << "no " << NameOf(kind) << " " << number;
  return 0;
}

Path Between(const System& system, int from, int to) { return PathsFrom(system, from)[to]; }

Path BetweenGpus(const System& system, int from, int to) {
  return Between(system, Find(system, DeviceKind::gpu, from), Find(system, DeviceKind::gpu, to));
}

TEST(Paths, ToItselfAndToNobody) {
  System system;
  system.devices = {{.kind = DeviceKind::cpu}, {.kind = DeviceKind::cpu}};
  const auto paths = PathsFrom(system, 0);
  EXPECT_EQ(paths[0].path_class, PathClass::LOC);
  EXPECT_TRUE(std::isinf(paths[0].bandwidth));
  EXPECT_EQ(paths[1].path_class, PathClass::DIS);
  EXPECT_EQ(paths[1].bandwidth, 0);
}

TEST(Paths, ClassesOfAHybridCubeMesh) {
  const System system = Load("dgx1v");
  EXPECT_EQ(BetweenGpus(system, 0, 1).path_class, PathClass::NVL);
  EXPECT_EQ(BetweenGpus(system, 0, 1).bandwidth, 20);
  EXPECT_EQ(BetweenGpus(system, 0, 3).bandwidth, 40);
  // GPU 0 has no link to GPU 7. GPU 4 has two to both, GPU 3 two and one, GPU 1 one and none.
  const Path bridged = BetweenGpus(system, 0, 7);
  EXPECT_EQ(bridged.path_class, PathClass::NVB);
  EXPECT_EQ(bridged.bandwidth, 40);
  ASSERT_EQ(bridged.links.size(), 2U);
  EXPECT_EQ(system.links[bridged.links[0]].to, Find(system, DeviceKind::gpu, 4));

  const int gpu = Find(system, DeviceKind::gpu, 0);
  const auto to_nic = [&](int nic) { return Between(system, gpu, Find(system, DeviceKind::nic, nic)).path_class; };
  EXPECT_EQ(to_nic(0), PathClass::PIX);
  EXPECT_EQ(to_nic(1), PathClass::PHB);
  EXPECT_EQ(to_nic(2), PathClass::SYS);
}

TEST(Paths, TwoSwitchesArePxb) {
  System system;
  system.devices = {{.kind = DeviceKind::cpu},        {.kind = DeviceKind::pci_switch},
                    {.kind = DeviceKind::pci_switch}, {.kind = DeviceKind::pci_switch},
                    {.kind = DeviceKind::gpu},        {.kind = DeviceKind::gpu},
                    {.kind = DeviceKind::gpu}};
  for (const auto& [a, b] : {std::pair(0, 1), {1, 2}, {1, 3}, {2, 4}, {2, 5}, {3, 6}}) {
    system.Join(a, b, LinkKind::pci, 12, 0.5);
  }
  EXPECT_EQ(Between(system, 4, 5).path_class, PathClass::PIX);
  EXPECT_EQ(Between(system, 4, 6).path_class, PathClass::PXB);
  EXPECT_EQ(Between(system, 4, 0).path_class, PathClass::PHB);
  EXPECT_DOUBLE_EQ(Between(system, 4, 6).latency, 2.0);
}

TEST(Paths, WidestBeforeShortestAndSmallestNumbersOfEquals) {
  System system;
  system.devices = std::vector<Device>(6, {.kind = DeviceKind::pci_switch});
  system.Join(0, 5, LinkKind::pci, 6, 0.5);  // short and narrow
  for (const int between : {4, 3}) {         // two ways that are equal
    system.Join(0, between, LinkKind::pci, 12, 0.5);
    system.Join(between, 5, LinkKind::pci, 12, 0.5);
  }
  system.Join(0, 1, LinkKind::pci, 48, 0.5);  // as wide in the end, and longer
  system.Join(1, 2, LinkKind::pci, 48, 0.5);
  system.Join(2, 5, LinkKind::pci, 12, 0.5);
  const Path path = Between(system, 0, 5);
  EXPECT_EQ(path.bandwidth, 12);
  ASSERT_EQ(path.links.size(), 2U);
  EXPECT_EQ(system.links[path.links[0]].to, 3);
}

TEST(Paths, GpusAndTheNetworkAreNoThoroughfareInsideAHost) {
  // Two CPUs with a poor socket link; a rich way leads over GPU 4, another over both NICs and the network.
  System system;
  system.devices = {{.kind = DeviceKind::cpu}, {.kind = DeviceKind::cpu}, {.kind = DeviceKind::nic},
                    {.kind = DeviceKind::nic}, {.kind = DeviceKind::gpu}, {.kind = DeviceKind::network, .host = -1}};
  system.Join(0, 1, LinkKind::socket, 6, 0.1);
  for (const auto& [cpu, nic] : {std::pair(0, 2), {1, 3}}) {
    system.Join(cpu, nic, LinkKind::pci, 48, 0.5);
    system.Join(nic, 5, LinkKind::network, 48, 0.5);
    system.Join(cpu, 4, LinkKind::pci, 48, 0.5);
  }
  const Path path = Between(system, 2, 3);
  EXPECT_EQ(path.path_class, PathClass::SYS);
  EXPECT_EQ(path.bandwidth, 6);
  EXPECT_EQ(Between(system, 0, 5).path_class, PathClass::NET);
}

TEST(Paths, BetweenHostsByTheNearestNic) {
  // Two hosts: a switch with a GPU and a NIC, and a second NIC at the CPU that is as fast but further.
  System system;
  for (const int host : {0, 1}) {
    const int first = static_cast<int>(system.devices.size());
    for (const DeviceKind kind :
         {DeviceKind::cpu, DeviceKind::nic, DeviceKind::pci_switch, DeviceKind::nic, DeviceKind::gpu}) {
      system.devices.push_back({.kind = kind, .host = host});
    }
    for (const auto& [a, b] : {std::pair(0, 1), {0, 2}, {2, 3}, {2, 4}}) {
      system.Join(first + a, first + b, LinkKind::pci, 24, 0.5);
    }
  }
  system.devices.push_back({.kind = DeviceKind::network, .host = -1});
  for (const int nic : {1, 3, 6, 8}) system.Join(nic, 10, LinkKind::network, 25, 0.6);
  const Path path = Between(system, 4, 9);
  EXPECT_EQ(path.path_class, PathClass::NET);
  EXPECT_EQ(path.bandwidth, 24);
  std::vector<int> visited;
  for (const int link : path.links) visited.push_back(system.links[link].to);
  EXPECT_EQ(visited, (std::vector<int>{2, 3, 10, 8, 7, 9}));
}

TEST(Paths, AreUnbrokenAndSymmetricInBandwidth) {
  for (const auto* name : {"dgx1v", "dgxh100", "oci_H100-topology", "hgxa100_4gpu", "azure_ncv4-topo", "l40s_8gpu"}) {
    const System system = Load(name);
    std::vector<std::vector<Path>> paths;
    for (std::size_t i = 0; i < system.devices.size(); ++i) paths.push_back(PathsFrom(system, static_cast<int>(i)));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      for (std::size_t j = 0; j < paths.size(); ++j) {
        int at = static_cast<int>(i);
        for (const int link : paths[i][j].links) {
          EXPECT_EQ(system.links[link].from, at);
          EXPECT_GE(system.links[link].bandwidth, paths[i][j].bandwidth);
          at = system.links[link].to;
        }
        if (paths[i][j].path_class != PathClass::DIS) {
          EXPECT_EQ(at, static_cast<int>(j));
        }
        EXPECT_EQ(paths[i][j].bandwidth, paths[j][i].bandwidth) << name << " " << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::topology
