#include "topology/graph/domains.h"

#include <gtest/gtest.h>

namespace tutti::topology {
namespace {

using Processors = std::vector<std::vector<int>>;

// Two sockets of one NUMA node each; every node has two caches of two processors.
System TwoSockets() {
  System system;
  for (int socket = 0; socket < 2; ++socket) {
    const int first = 4 * socket;
    system.devices.push_back({.kind = DeviceKind::cpu,
                              .number = socket,
                              .package = socket,
                              .cores = {first, first + 1, first + 2, first + 3},
                              .caches = {{first, first + 1}, {first + 2, first + 3}}});
  }
  return system;
}

TEST(Domains, AreTheCachesWhereEachHasTwoRanks) {
  const auto domains = DomainsOf(TwoSockets(), 0, OneProcessorEach(TwoSockets(), 0, 8));
  ASSERT_TRUE(domains);
  EXPECT_EQ(domains->kind, DomainKind::cache);
  EXPECT_EQ(domains->domain_of, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(Domains, AreTheNodesWhereCachesHaveOneRankEach) {
  const auto domains = DomainsOf(TwoSockets(), 0, Processors{{0}, {4}, {2}, {6}});
  ASSERT_TRUE(domains);
  EXPECT_EQ(domains->kind, DomainKind::numa_node);
  EXPECT_EQ(domains->domain_of, (std::vector<int>{0, 1, 0, 1}));
}

TEST(Domains, AreTheNodesWhereRanksAreBoundToNodes) {
  const auto domains = DomainsOf(TwoSockets(), 0, Processors{{0, 1, 2, 3}, {0, 1, 2, 3}, {4, 5, 6, 7}, {4, 5, 6, 7}});
  ASSERT_TRUE(domains);
  EXPECT_EQ(domains->kind, DomainKind::numa_node);
}

TEST(Domains, AreTheSocketsWhereEachHasSeveralNodes) {
  System system = TwoSockets();
  system.devices[0].package = system.devices[1].package = 0;
  for (int node = 2; node < 4; ++node) {
    const int first = 4 * node;
    system.devices.push_back(
        {.kind = DeviceKind::cpu, .number = node, .package = 1, .cores = {first, first + 1, first + 2, first + 3}});
  }
  const auto domains = DomainsOf(system, 0, Processors{{0}, {4}, {8}, {12}});
  ASSERT_TRUE(domains);
  EXPECT_EQ(domains->kind, DomainKind::package);
  EXPECT_EQ(domains->domain_of, (std::vector<int>{0, 0, 1, 1}));
}

TEST(Domains, ThereAreNoneWhereARankMayRunAnywhere) {
  Processors processors = OneProcessorEach(TwoSockets(), 0, 8);
  processors[3] = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_FALSE(DomainsOf(TwoSockets(), 0, processors));
}

TEST(Domains, ThereAreNoneWhereAllRanksAreNear) {
  EXPECT_FALSE(DomainsOf(TwoSockets(), 0, Processors{{0}, {1}, {0}, {1}}));
  EXPECT_FALSE(DomainsOf(TwoSockets(), 0, Processors{{0}, {4}}));  // one rank each
  EXPECT_FALSE(DomainsOf(TwoSockets(), 0, Processors{{}, {}, {}, {}}));
  EXPECT_FALSE(DomainsOf(System{}, 0, Processors{{0}, {1}, {2}, {3}}));
  EXPECT_FALSE(DomainsOf(TwoSockets(), 0, Processors{{90}, {91}, {92}, {93}}));  // not among the host's
}

TEST(Domains, ProcessorsAreTakenInTurn) {
  EXPECT_EQ(OneProcessorEach(TwoSockets(), 0, 9).back(), (std::vector<int>{0}));
  EXPECT_EQ(OneProcessorEach(System{}, 0, 2), Processors(2));
}

}  // namespace
}  // namespace tutti::topology
