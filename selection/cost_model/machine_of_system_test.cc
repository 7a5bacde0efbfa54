#include "selection/cost_model/machine_of_system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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

// A rank's way to the network: by PCI switches, or by memory of the host and back over the same switch.
TEST(MachineOfSystem, DataGoThroughTheHostUnlessTheNicReachesTheGpu) {
  const Machine direct = MachineOfSystem(Dgx(), 2);
  const Route straight = direct.RouteOf(1, 9, 0);
  for (const auto kind : {topology::DeviceKind::gpu, topology::DeviceKind::nic}) {
    auto system = Dgx();
    for (const int device : system.All(kind)) system.devices[device].gdr = false;
    const Machine machine = MachineOfSystem(system, 2);
    const Route route = machine.RouteOf(1, 9, 0);
    EXPECT_GT(route.resources.size(), straight.resources.size());
    EXPECT_GT(route.latency[0], straight.latency[0]);
    bool by_host = false;
    for (const int resource : route.resources) {
      by_host = by_host || machine.resource(resource).name.find("NUMA") != std::string::npos;
    }
    EXPECT_TRUE(by_host);
    EXPECT_EQ(machine.RouteOf(1, 6, 0).resources, direct.RouteOf(1, 6, 0).resources) << "on the node nothing changes";
    // Ranks that have tried know better than the description.
    const auto gpus = system.All(topology::DeviceKind::gpu, 0);
    EXPECT_EQ(MachineOfSystem(system, 2, gpus, {}, true).RouteOf(1, 9, 0).resources, straight.resources);
    EXPECT_EQ(MachineOfSystem(Dgx(), 2, gpus, {}, false).RouteOf(1, 9, 0).resources, route.resources);
  }
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

// Four GPUs with an NVLink between each two: rings by rank leave two of three idle.
TEST(MachineOfSystem, RingsOnOneNodeFollowItsLinks) {
  const auto system = xml::ReadTopologyFile("topology/testdata/hgxa100_4gpu.xml").system;
  std::vector<int> gpus = system.All(topology::DeviceKind::gpu, 0);
  ASSERT_EQ(gpus.size(), 4u);
  std::ranges::reverse(gpus);
  for (const Machine& machine : {MachineOfSystem(system, 1), MachineOfSystem(system, 1, gpus)}) {
    std::map<std::vector<int>, int> crossings;  // by link
    for (const auto& ring : machine.rank_layout().rings) {
      EXPECT_EQ(std::set<int>(ring.begin(), ring.end()).size(), 4u);
      for (std::size_t i = 0; i < ring.size(); ++i)
        ++crossings[machine.RouteOf(ring[i], ring[(i + 1) % ring.size()], 0).resources];
    }
    EXPECT_EQ(crossings.size(), 12u);  // both directions of each of six
    for (const auto& [links, times] : crossings) EXPECT_EQ(times, crossings.begin()->second);
  }
  EXPECT_TRUE(MachineOfSystem(system, 1, 3).rank_layout().rings.empty());  // a GPU has no rank
}

TEST(MachineOfSystem, RingsAreByRankWhereThatIsAsGood) {
  for (const auto* name : {"dgxh100", "dgxa100", "l40s_8gpu", "workstation_2gpu_amd", "dgxb200"}) {
    const auto system = xml::ReadTopologyFile(std::string("topology/testdata/") + name + ".xml").system;
    EXPECT_TRUE(MachineOfSystem(system, 1).rank_layout().rings.empty()) << name;
  }
}

TEST(MachineOfSystem, RanksAreOnTheGpusThatTheyHave) {
  const auto system = xml::ReadTopologyFile("topology/testdata/l40s_8gpu.xml").system;  // two sockets
  const auto gpus = system.All(topology::DeviceKind::gpu, 0);
  const Machine machine = MachineOfSystem(system, 1, {gpus[7], gpus[0], gpus[6]});
  const auto links = [&](int from, int to) { return machine.RouteOf(from, to, 0).resources.size(); };
  EXPECT_GT(links(0, 1), links(0, 2));
  EXPECT_THROW(MachineOfSystem(system, 1, {gpus[0], gpus[0]}), Error);
}

// Each crossing joins ranks of one place, and every place has as many crossings.
TEST(MachineOfSystem, FlatRingsKeepTheirRails) {
  for (const int nodes : {2, 3, 4, 5, 8}) {
    for (const int places : {1, 2, 3, 8}) {
      const auto rings = schedule::TurnedRings(schedule::ArrangeEvenly(nodes * places, nodes));
      ASSERT_EQ(rings.size(), static_cast<std::size_t>(places));
      std::map<int, int> left, entered;  // by rank
      for (const auto& ring : rings) {
        ASSERT_EQ(std::set<int>(ring.begin(), ring.end()).size(), ring.size());
        int off_rail = 0;
        for (int node = 0; node < nodes; ++node) {
          const int last = ring[static_cast<std::size_t>(node * places + places - 1)];
          const int next = ring[static_cast<std::size_t>((node + 1) % nodes * places)];
          EXPECT_EQ(last / places, node);
          off_rail += last % places != next % places;
          ++left[last], ++entered[next];
        }
        EXPECT_EQ(off_rail, places == 2 && nodes % 2 == 1 ? 1 : 0) << nodes << " nodes of " << places;
      }
      for (const auto* crossings : {&left, &entered}) {
        EXPECT_EQ(crossings->size(), static_cast<std::size_t>(nodes * places));
        for (const auto& [rank, times] : *crossings) EXPECT_EQ(times, 1) << rank;
      }
    }
  }
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
  EXPECT_EQ(2 * rate(MachineOfSystem(Dgx(), 1, 0, {kNcclBlockThreads / 2})), rate(MachineOfSystem(Dgx(), 1)));
  EXPECT_EQ(2 * rate(MachineOfOneGpu(2, 90, 3350, {kNcclBlockThreads / 2})), rate(MachineOfOneGpu(2, 90, 3350)));
}

}  // namespace
}  // namespace tutti::cost_model
