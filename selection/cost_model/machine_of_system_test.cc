#include "selection/cost_model/machine_of_system.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "selection/cost_model/machine_constants.h"
#include "topology/xml/xml.h"

namespace tutti::cost_model {
namespace {

topology::System Dgx() { return xml::ReadTopologyFile("topology/testdata/dgxh100.xml").system; }

double Narrowest(const Machine& machine, const Route& route) {
  double bandwidth = 1e9;
  for (const int resource : route.resources) bandwidth = std::min(bandwidth, machine.resource(resource).bandwidth);
  return bandwidth;
}

TEST(MachineOfSystem, CrossesNvlinkOnTheNodeAndARankSOwnPortBetweenNodes) {
  const Machine machine = MachineOfSystem(Dgx(), 3);
  EXPECT_EQ(machine.nranks(), 24);
  const Route local = machine.RouteOf(1, 6, 0);
  EXPECT_FALSE(local.network);
  EXPECT_EQ(local.resources.size(), 2u);
  EXPECT_NEAR(Narrowest(machine, local), 18 * 20.6, 0.1);
  const Route network = machine.RouteOf(1, 9, 0);
  EXPECT_TRUE(network.network);
  EXPECT_NEAR(Narrowest(machine, network), 48, 1);
  EXPECT_GT(network.latency[0], local.latency[0]);
}

TEST(MachineOfSystem, ChannelsOfOneGpuTakeItsPortsInTurn) {
  const Machine machine =
      MachineOfSystem(xml::ReadTopologyFile("selection/cost_model/testdata/h100_4nics.xml").system, 2);
  std::set<std::vector<int>> routes;
  for (int channel = 0; channel < 8; ++channel) routes.insert(machine.RouteOf(0, 1, channel).resources);
  EXPECT_EQ(routes.size(), 4u);
}

TEST(MachineOfSystem, FlatRingsLeaveTheNodesByAllPorts) {
  const Machine machine = MachineOfSystem(Dgx(), 2);
  std::set<int> last;
  for (const auto& ring : machine.rank_layout().rings) {
    ASSERT_EQ(ring.size(), 16u);
    EXPECT_LT(ring[7], 8);
    last.insert(ring[7]);
  }
  EXPECT_EQ(last.size(), 8u);
}

TEST(MachineOfSystem, RefusesWhatThereIsNotEnoughOf) {
  EXPECT_THROW(MachineOfSystem(Dgx(), 1, 9), Error);
  EXPECT_THROW(MachineOfSystem(topology::System{}, 1), Error);
  topology::System lonely = Dgx();
  std::erase_if(lonely.links, [](const topology::Link& link) { return link.kind == topology::LinkKind::network; });
  for (topology::Device& device : lonely.devices) {
    if (device.kind == topology::DeviceKind::nic) device.host = 1;
  }
  EXPECT_THROW(MachineOfSystem(lonely, 2), Error);
}

TEST(GpuConstants, AreOfTheNewestGenerationThatIsNotNewer) {
  EXPECT_EQ(GpuConstantsOf(80).sm, 80);
  EXPECT_EQ(GpuConstantsOf(86).sm, 80);
  EXPECT_EQ(GpuConstantsOf(89).sm, 80);
  EXPECT_EQ(GpuConstantsOf(99).sm, 90);
  EXPECT_EQ(GpuConstantsOf(120).sm, 100);
  EXPECT_EQ(GpuConstantsOf(70).sm, 80);
  EXPECT_EQ(GpuConstantsOf(0).sm, 80);
}

// A block's bandwidth is that of its threads' loads in flight.
TEST(MachineOfSystem, SmallerBlocksMoveTheirShare) {
  const auto rate = [](const Machine& machine) { return machine.costs().executor_bandwidth.front().bandwidth; };
  EXPECT_EQ(2 * rate(MachineOfSystem(Dgx(), 1, 0, kNcclBlockThreads / 2)), rate(MachineOfSystem(Dgx(), 1)));
  EXPECT_EQ(2 * rate(MachineOfOneGpu(2, 90, 3350, kNcclBlockThreads / 2)), rate(MachineOfOneGpu(2, 90, 3350)));
}

}  // namespace
}  // namespace tutti::cost_model
