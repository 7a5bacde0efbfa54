#include "topology/xml/fuse.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "topology/graph/paths.h"
#include "topology/xml/xml.h"

namespace tutti::xml {
namespace {

topology::System Load(const std::string& name) { return ReadTopologyFile("topology/testdata/" + name + ".xml").system; }

TEST(Fuse, TravelsAsBytes) {
  for (const auto* name : {"dgxh100", "dgx1v", "oci_H100-topology", "azure_ncv4-topo", "workstation_2gpu_amd"}) {
    const topology::System host = Load(name);
    const std::string bytes = Serialize(host);
    EXPECT_EQ(Deserialize(bytes, "host a"), host) << name;
    EXPECT_LT(bytes.size(), 16U << 10) << name;
  }
  try {
    Deserialize(
        "\x7f"
        "ELF",
        "host b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("host b:")) << error.what();
  }
  EXPECT_THROW(Deserialize("<system><cpu host_hash='1'/><cpu host_hash='2'/></system>", "host c"), Error);
}

TEST(Fuse, UnequalHostsHangOnOneNetwork) {
  const std::vector<topology::System> parts = {Load("dgxa100"), Load("dgxh100"), Load("workstation_2gpu_amd")};
  const topology::System whole = Fuse(parts);
  EXPECT_EQ(whole.hosts(), 3);
  EXPECT_EQ(whole.All(topology::DeviceKind::network).size(), 1U);
  EXPECT_EQ(whole.All(topology::DeviceKind::gpu).size(), 18U);
  EXPECT_EQ(whole.All(topology::DeviceKind::nic, 1).size(), 8U);
  EXPECT_EQ(whole.All(topology::DeviceKind::nvswitch).size(), 2U);

  const auto paths = topology::PathsFrom(whole, whole.All(topology::DeviceKind::gpu, 0)[0]);
  const topology::Path& to_next = paths[whole.All(topology::DeviceKind::gpu, 1)[0]];
  EXPECT_EQ(to_next.path_class, topology::PathClass::NET);
  EXPECT_EQ(paths[whole.All(topology::DeviceKind::gpu, 0)[7]].path_class, topology::PathClass::NVL);
  EXPECT_EQ(paths[whole.All(topology::DeviceKind::gpu, 2)[0]].path_class, topology::PathClass::DIS)
      << "a host without a port";
  // Links stay in their host, or lead to the network.
  for (const topology::Link& link : whole.links) {
    const int from = whole.devices[link.from].host;
    const int to = whole.devices[link.to].host;
    EXPECT_TRUE(from == to || from == -1 || to == -1);
  }
}

TEST(Fuse, OfOneIsItself) {
  const topology::System system = Load("dgxh100");
  EXPECT_EQ(Fuse(std::vector<topology::System>{system}), system);
  EXPECT_EQ(Replicate(system, 1), system);
  EXPECT_TRUE(Fuse({}).devices.empty());
}

TEST(Fuse, ReplicasGoOnCounting) {
  topology::System system = Replicate(Load("dgxh100"), 16);
  EXPECT_EQ(system.hosts(), 16);
  const auto gpus = PlaceRanks(system);
  ASSERT_EQ(gpus.size(), 128U);
  for (int rank = 0; rank < 128; ++rank) {
    EXPECT_EQ(system.devices[gpus[rank]].rank, rank);
    EXPECT_EQ(system.devices[gpus[rank]].host, rank / 8);
    EXPECT_EQ(system.devices[gpus[rank]].number, rank % 8);
  }
}

TEST(PlaceRanks, ByDeviceNumberWhereNoneIsTold) {
  topology::System system = Replicate(Load("azure_ndv4-topo"), 2);  // GPUs in another order than their numbers
  const auto gpus = PlaceRanks(system);
  ASSERT_EQ(gpus.size(), 16U);
  for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(system.devices[gpus[rank]].number, rank % 8);
}

TEST(PlaceRanks, KeepsAWholePermutationAndNothingLess) {
  topology::System system = Load("workstation_2gpu_amd");
  const auto gpus = system.All(topology::DeviceKind::gpu);
  system.devices[gpus[0]].rank = 1;
  system.devices[gpus[1]].rank = 0;
  EXPECT_EQ(PlaceRanks(system), (std::vector<int>{gpus[1], gpus[0]}));
  system.devices[gpus[0]].rank = 7;
  system.devices[gpus[1]].rank = 7;
  EXPECT_EQ(PlaceRanks(system), gpus);
  EXPECT_EQ(system.devices[gpus[1]].rank, 1);
}

}  // namespace
}  // namespace tutti::xml
