#include "topology/graph/rails.h"

#include <gtest/gtest.h>

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

TEST(Capacity, OfGpusAndPorts) {
  const System h100 = xml::ReadTopologyFile(samples::PathOf("dgxh100")).system;
  EXPECT_DOUBLE_EQ(RingCapacity(h100, 0), 370.8);
  EXPECT_NEAR(ReachablePortCapacity(h100, 0), 8 * 48, 1e-9);  // PCI 5.0 x16 is slower than 400 Gbit/s
  EXPECT_GT(PortCapacity(h100, 0), ReachablePortCapacity(h100, 0));
  EXPECT_DOUBLE_EQ(RingCapacity(xml::ReadTopologyFile(samples::PathOf("l40s_8gpu")).system, 0), 24);
}

}  // namespace
}  // namespace tutti::topology
