#include "topology/search/ring_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "topology/graph/capacity.h"
#include "topology/graph/rails.h"
#include "topology/graph/sample_systems.h"
#include "topology/search/hop_graph.h"
#include "topology/search/ring_packing.h"
#include "topology/xml/fuse.h"
#include "topology/xml/xml.h"

namespace tutti::search {
namespace {

topology::System Load(const std::string& file) { return xml::ReadTopologyFile(samples::PathOf(file)).system; }

// The links of a ring lead from its start round to its start, by way of its stops in their order.
void CheckWay(const topology::System& system, const Ring& ring) {
  std::vector<int> stops = ring.order;
  int at = ring.order.front();
  if (ring.nic_in >= 0) {
    at = system.All(topology::DeviceKind::network).front();
    stops.insert(stops.begin(), ring.nic_in);
    stops.push_back(ring.nic_out);
  } else {
    stops.erase(stops.begin());
  }
  stops.push_back(at);
  std::size_t next = 0;
  for (const int link : ring.links) {
    ASSERT_EQ(system.links[link].from, at);
    at = system.links[link].to;
    if (at == stops[next]) ++next;
  }
  EXPECT_EQ(next, stops.size());
}

void CheckRings(const topology::System& system, const Rings& rings, bool cluster) {
  std::vector<double> used(system.links.size(), 0);
  for (const Ring& ring : rings.rings) {
    std::vector<int> visited = ring.order;
    std::sort(visited.begin(), visited.end());
    EXPECT_EQ(visited, topology::RingEnds(system, 0));
    EXPECT_EQ(ring.nic_in >= 0, cluster);
    EXPECT_EQ(ring.nic_out >= 0, cluster);
    CheckWay(system, ring);
    for (const int link : ring.links) used[link] += rings.bandwidth;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    EXPECT_LE(used[i], system.links[i].bandwidth * (1 + 1e-5))
        << system.devices[system.links[i].from].name << " -> " << system.devices[system.links[i].to].name;
  }
}

TEST(RingSearch, EveryFileRespectsItsLinks) {
  for (const char* file : samples::kCompleteFiles) {
    SCOPED_TRACE(file);
    const topology::System system = Load(file);
    const Rings alone = SearchRings(system, 0);
    EXPECT_FALSE(alone.rings.empty());
    CheckRings(system, alone, false);
    EXPECT_LE(alone.total(), topology::RingCapacity(system, 0) * (1 + 1e-5));
    const Rings cluster = SearchClusterRings(system, 0);
    EXPECT_EQ(cluster.rings.empty(), system.All(topology::DeviceKind::nic).empty());
    CheckRings(system, cluster, true);
    EXPECT_LE(cluster.total(), topology::ReachablePortCapacity(system, 0) * (1 + 1e-5));
  }
}

TEST(RingSearch, RandomSystemsRespectTheirLinks) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const topology::System system = samples::RandomSystem(seed);
    const Rings alone = SearchRings(system, 0);
    EXPECT_EQ(alone.rings.empty(), topology::RingEnds(system, 0).size() < 2);
    CheckRings(system, alone, false);
    const Rings cluster = SearchClusterRings(system, 0);
    EXPECT_EQ(cluster.rings.empty(), system.All(topology::DeviceKind::nic).empty());
    CheckRings(system, cluster, true);
  }
}

// The bound is proved (ring_packing.h), so no search finds more; this search should hardly ever find less.
TEST(RingSearch, RandomSystemsAreFilledAlmostToTheBound) {
  double found = 0;
  double bound = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const topology::System system = samples::RandomSystem(seed);
    const Rings rings = SearchRings(system, 0);
    if (rings.rings.empty()) continue;
    const HopGraph graph(system, 0, NicReach::none);
    const int most = MostRings(system, graph, VitalLinks(system, graph), rings.bandwidth);
    EXPECT_LE(rings.rings.size(), static_cast<std::size_t>(most)) << seed;
    found += rings.total();
    bound += most * rings.bandwidth;
  }
  EXPECT_GE(found, 0.98 * bound);
}

TEST(RingSearch, ManyGpusOnOneSwitch) {
  topology::System system;
  const int nvswitch = samples::Add(system, topology::DeviceKind::nvswitch, 0);
  for (int gpu = 0; gpu < 72; ++gpu) {
    system.Join(samples::Add(system, topology::DeviceKind::gpu, gpu), nvswitch, topology::LinkKind::nvlink, 720, 0.35);
  }
  const Rings rings = SearchRings(system, 0);
  CheckRings(system, rings, false);
  EXPECT_DOUBLE_EQ(rings.total(), 720);
}

// Another library's results on these files (topology/testdata/graphs.csv), as a share of the same capacity.
TEST(RingSearch, CarriesAtLeastTheReferencesShare) {
  std::ifstream reference("topology/testdata/graphs.csv");
  ASSERT_TRUE(reference);
  std::string line;
  std::getline(reference, line);
  int rows = 0;
  while (std::getline(reference, line)) {
    SCOPED_TRACE(line);
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    std::string file;
    int inter = 0;
    int domain = 0;
    int channels = 0;
    double bandwidth = 0;
    ASSERT_TRUE(row >> file >> inter >> domain >> channels >> bandwidth);
    const topology::System system = Load(file);
    const Rings rings = inter == 1 ? SearchClusterRings(system, 0) : SearchRings(system, 0);
    EXPECT_GE(rings.total(), channels * bandwidth);
    ++rows;
  }
  EXPECT_EQ(rows, 21);
}

TEST(RingSearch, FillsTheCubeMesh) {
  const Rings rings = SearchRings(Load("dgx1v"), 0);
  EXPECT_EQ(rings.rings.size(), 6U);
  EXPECT_DOUBLE_EQ(rings.bandwidth, 20);
}

TEST(RingSearch, OneSwitchNeedsOneRing) {
  const Rings rings = SearchRings(Load("dgxh100"), 0);
  ASSERT_EQ(rings.rings.size(), 1U);
  EXPECT_DOUBLE_EQ(rings.bandwidth, 370.8);
}

TEST(RingSearch, StaysOnOneRailWhereANicHasTwoGpus) {
  for (const char* file : {"dgx1v", "dgxa100", "aws_p4d_full"}) {
    for (const Ring& ring : SearchClusterRings(Load(file), 0).rings) EXPECT_EQ(ring.nic_in, ring.nic_out) << file;
  }
}

TEST(RingSearch, AlternatesBetweenRailsWhereANicHasOneGpu) {
  const topology::System host = Load("dgxh100");
  const Rings rings = SearchClusterRings(host, 0);
  ASSERT_EQ(rings.rings.size(), 8U);
  const topology::System cluster = xml::Replicate(host, 4);
  const std::vector<std::vector<int>> across = RingsAcross(cluster, rings);
  ASSERT_EQ(across.size(), 8U);
  for (std::size_t r = 0; r < across.size(); ++r) {
    EXPECT_NE(rings.rings[r].nic_in, rings.rings[r].nic_out);
    std::vector<int> visited = across[r];
    std::sort(visited.begin(), visited.end());
    EXPECT_EQ(visited, cluster.All(topology::DeviceKind::gpu));
    // Where the ring changes hosts, it goes on at the GPU, and so at the NIC, of the number by which it left.
    for (std::size_t k = 7; k < across[r].size(); k += 8) {
      const topology::Device& leaving = cluster.devices[across[r][k]];
      const topology::Device& entering = cluster.devices[across[r][(k + 1) % across[r].size()]];
      EXPECT_NE(leaving.host, entering.host);
      EXPECT_EQ(leaving.number, entering.number);
    }
  }
}

TEST(RingSearch, RefusesHostsThatDiffer) {
  const topology::System small = Load("hgxa100_4gpu");
  const std::vector<topology::System> hosts = {small, Load("dgxa100")};
  try {
    RingsAcross(xml::Fuse(hosts), SearchClusterRings(small, 0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), tuttiInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("host 1 has 8"), std::string::npos) << error.what();
  }
}

TEST(RingSearch, OneGpuHasNoRingButAWayThrough) {
  topology::System system;
  const int gpu = samples::Add(system, topology::DeviceKind::gpu, 0);
  const int nic = samples::Add(system, topology::DeviceKind::nic, 0);
  system.Join(gpu, nic, topology::LinkKind::pci, 24, 0.5);
  system.Join(nic, samples::Add(system, topology::DeviceKind::network, 0), topology::LinkKind::network, 25, 0.6);
  EXPECT_TRUE(SearchRings(system, 0).rings.empty());
  const Rings through = SearchClusterRings(system, 0);
  ASSERT_EQ(through.rings.size(), 1U);
  EXPECT_DOUBLE_EQ(through.bandwidth, 24);
  EXPECT_EQ(through.rings[0].order, std::vector<int>{gpu});
}

}  // namespace
}  // namespace tutti::search
