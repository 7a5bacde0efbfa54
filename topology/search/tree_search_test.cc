#include "topology/search/tree_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "topology/graph/rails.h"
#include "topology/graph/sample_systems.h"
#include "topology/xml/xml.h"

namespace tutti::search {
namespace {

void CheckTrees(const topology::System& system, const SpanningTrees& found, const std::vector<int>& roots) {
  std::vector<double> used(system.links.size(), 0);
  std::vector<int> found_roots;
  for (const SpanningTree& tree : found.trees) {
    found_roots.push_back(tree.order.front());
    std::vector<int> visited = tree.order;
    std::sort(visited.begin(), visited.end());
    EXPECT_EQ(visited, topology::RingEnds(system, 0));
    ASSERT_EQ(tree.parent.size(), tree.order.size());
    EXPECT_EQ(tree.parent[0], -1);
    for (std::size_t k = 1; k < tree.order.size(); ++k) {
      const auto here = tree.order.begin() + static_cast<std::ptrdiff_t>(k);
      EXPECT_NE(std::find(tree.order.begin(), here, tree.parent[k]), here) << "parents come first";
      EXPECT_LE(std::count(tree.parent.begin(), tree.parent.end(), tree.parent[k]), kMostChildren);
    }
    for (const int link : tree.links) used[link] += found.bandwidth;
  }
  std::sort(found_roots.begin(), found_roots.end());
  std::vector<int> sorted_roots = roots;
  std::sort(sorted_roots.begin(), sorted_roots.end());
  EXPECT_EQ(found_roots, sorted_roots);
  for (std::size_t i = 0; i < used.size(); ++i) EXPECT_LE(used[i], system.links[i].bandwidth * (1 + 1e-5)) << i;
}

TEST(TreeSearch, EveryFileRespectsItsLinks) {
  for (const char* file : samples::kCompleteFiles) {
    SCOPED_TRACE(file);
    const topology::System system = xml::ReadTopologyFile(samples::PathOf(file)).system;
    const std::vector<int> roots = RailRoots(system, 0);
    CheckTrees(system, SearchTrees(system, 0, roots), roots);
  }
}

TEST(TreeSearch, RandomSystemsRespectTheirLinks) {
  int searched = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const topology::System system = samples::RandomSystem(seed);
    if (topology::RingEnds(system, 0).size() < 2) continue;
    const std::vector<int> roots = RailRoots(system, 0);
    const SpanningTrees found = SearchTrees(system, 0, roots);
    if (found.trees.empty()) continue;  // many roots behind one narrow link
    CheckTrees(system, found, roots);
    ++searched;
  }
  EXPECT_GT(searched, 50);
}

TEST(TreeSearch, FillsASwitch) {
  const topology::System system = xml::ReadTopologyFile(samples::PathOf("dgxa100")).system;
  const SpanningTrees found = SearchTrees(system, 0, RailRoots(system, 0));
  // 7 edges a tree, each in both directions, from 8 GPUs of 240 GB/s.
  EXPECT_NEAR(found.total(), 240.0 * 8 / 14, 1e-6);
}

TEST(TreeSearch, RootsAreTheGpusOfTheRails) {
  const topology::System system = xml::ReadTopologyFile(samples::PathOf("dgx1v")).system;
  std::vector<int> numbers;
  for (const int gpu : RailRoots(system, 0)) numbers.push_back(system.devices[gpu].number);
  EXPECT_EQ(numbers, (std::vector<int>{0, 2, 4, 6}));
  const topology::System no_nic = xml::ReadTopologyFile(samples::PathOf("workstation_2gpu_amd")).system;
  EXPECT_EQ(RailRoots(no_nic, 0), no_nic.All(topology::DeviceKind::gpu));
}

TEST(TreeSearch, NothingToJoin) {
  topology::System system;
  const int lonely = samples::Add(system, topology::DeviceKind::gpu, 0);
  EXPECT_TRUE(SearchTrees(system, 0, {lonely}).trees.empty());
}

}  // namespace
}  // namespace tutti::search
