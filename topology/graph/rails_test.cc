#include "topology/graph/rails.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "topology/graph/capacity.h"
#include "topology/graph/sample_systems.h"
#include "topology/xml/xml.h"

namespace tutti::topology {
namespace {

// "0:0,1 1:2": GPU 0 has NICs 0 and 1, GPU 1 has NIC 2; in the order of the GPUs' numbers.
std::string Table(const std::string& file) {
  const System system = xml::ReadTopologyFile(samples::PathOf(file)).system;
  const std::vector<std::vector<int>> nics = NearestNics(system, 0);
  const std::vector<int> ends = RingEnds(system, 0);
  std::map<int, std::string> rows;
  for (std::size_t k = 0; k < ends.size(); ++k) {
    std::string& row = rows[system.devices[ends[k]].number];
    for (const int nic : nics[k]) row += (row.empty() ? "" : ",") + std::to_string(system.devices[nic].number);
  }
  std::string text;
  for (const auto& [gpu, row] : rows) text += (text.empty() ? "" : " ") + std::to_string(gpu) + ":" + row;
  return text;
}

TEST(Rails, EachGpuItsOwnNic) {
  EXPECT_EQ(Table("dgxh100"), "0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7");
  EXPECT_EQ(Table("dgxa100"), "0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7");
  EXPECT_EQ(Table("azure_ndv4_full"), "0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7");
}

TEST(Rails, GpusShareNics) {
  EXPECT_EQ(Table("dgx1v"), "0:0 1:0 2:1 3:1 4:2 5:2 6:3 7:3");
  EXPECT_EQ(Table("azure_ncv4-topo"), "0:0 1:0 2:0 3:0");
}

TEST(Rails, AGpuHasSeveralNics) {
  EXPECT_EQ(Table("oci_H100-topology"), "0:0,1 1:2,3 2:4,5 3:6,7 4:8,9 5:10,11 6:12,13 7:14,15");
}

TEST(Rails, NoNics) { EXPECT_EQ(Table("workstation_2gpu_amd"), "0: 1:"); }

TEST(Rails, EqualDistanceIsSharedEvenly) {
  System system;
  const int pci_switch = samples::Add(system, DeviceKind::pci_switch, 0);
  for (int k = 0; k < 2; ++k) {
    system.Join(pci_switch, samples::Add(system, DeviceKind::gpu, k), LinkKind::pci, 24, 0.5);
  }
  std::vector<int> nics;
  for (int k = 0; k < 4; ++k) {
    nics.push_back(samples::Add(system, DeviceKind::nic, k));
    system.Join(pci_switch, nics.back(), LinkKind::pci, 24, 0.5);
  }
  EXPECT_EQ(NearestNics(system, 0), (std::vector<std::vector<int>>{{nics[0], nics[2]}, {nics[1], nics[3]}}));
}

// Eight ranks, each at a GPU of its own, use all NICs together; and so do eight on two NUMA nodes, or on one GPU.
TEST(Rails, RanksShareAllNics) {
  const auto first_nics = [](const System& system, const std::vector<int>& device_of) {
    std::vector<int> numbers;
    for (const auto& nics : NicsOfRanks(system, 0, device_of)) numbers.push_back(system.devices[nics.front()].number);
    return numbers;
  };
  const System system = xml::ReadTopologyFile(samples::PathOf("dgxh100")).system;
  std::vector<int> gpus = system.All(DeviceKind::gpu, 0);
  std::ranges::sort(gpus, {}, [&](int gpu) { return system.devices[gpu].number; });
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(first_nics(system, gpus), all);
  std::ranges::reverse(gpus);
  EXPECT_EQ(first_nics(system, gpus), std::vector<int>(all.rbegin(), all.rend()));
  const std::vector<int> cpus = system.All(DeviceKind::cpu, 0);
  ASSERT_EQ(cpus.size(), 2U);
  for (const std::vector<int>& device_of :
       {std::vector<int>{cpus[0], cpus[0], cpus[0], cpus[0], cpus[1], cpus[1], cpus[1], cpus[1]},
        std::vector<int>(8, gpus.front())}) {
    auto numbers = first_nics(system, device_of);
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers, all);
  }
  // A GPU alone has all of them, those of its own socket first.
  const auto sixth = std::ranges::find(system.devices, "GPU5", &Device::name);
  ASSERT_NE(sixth, system.devices.end());
  const auto nics = NicsOfRanks(system, 0, {static_cast<int>(sixth - system.devices.begin())});
  std::vector<int> numbers;
  for (const int nic : nics.front()) numbers.push_back(system.devices[nic].number);
  EXPECT_EQ(numbers, (std::vector<int>{5, 4, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(NicsOfRanks(xml::ReadTopologyFile(samples::PathOf("workstation_2gpu_amd")).system, 0, {0, 0}),
            std::vector<std::vector<int>>(2));
}

TEST(Capacity, OfGpusAndPorts) {
  const System h100 = xml::ReadTopologyFile(samples::PathOf("dgxh100")).system;
  EXPECT_DOUBLE_EQ(RingCapacity(h100, 0), 370.8);
  EXPECT_NEAR(ReachablePortCapacity(h100, 0), 8 * 48, 1e-9);  // PCI 5.0 x16 is slower than 400 Gbit/s
  EXPECT_GT(PortCapacity(h100, 0), ReachablePortCapacity(h100, 0));
  EXPECT_DOUBLE_EQ(RingCapacity(xml::ReadTopologyFile(samples::PathOf("l40s_8gpu")).system, 0), 24);
}

}  // namespace
}  // namespace tutti::topology
