#include "algorithms/builders/trees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::builders {
namespace {

constexpr int kReferenceRanks = 64;  // of the reference
constexpr int kProvedRanks = 256;

bool HasChildren(const TreeNode& node) { return node.children[0] != -1 || node.children[1] != -1; }

// Every rank hangs on `root` over at most `depth` edges, and parents and children agree about each other.
void ExpectTree(const std::vector<TreeNode>& nodes, int root, int depth) {
  const int n = static_cast<int>(nodes.size());
  for (int rank = 0; rank < n; ++rank) {
    int above = rank;
    for (int i = 0; i < depth && above != root; ++i) above = nodes[above].parent;
    ASSERT_EQ(above, root) << "rank " << rank << " of " << n;
    const int parent = nodes[rank].parent;
    if (rank == root) {
      EXPECT_EQ(parent, -1);
    } else {
      const auto& siblings = nodes[parent].children;
      EXPECT_EQ(std::count(siblings.begin(), siblings.end(), rank), 1);
    }
    for (const int child : nodes[rank].children) {
      EXPECT_TRUE(child == -1 || nodes[child].parent == rank);
    }
  }
}

// Above a binary search tree of n - 1 nodes there is the root: log2 n rounded up, never more than floor(log2 n) + 1.
int Depth(int n) {
  int depth = 1;
  while (1 << depth < n) ++depth;
  return depth;
}

// The trees that NCCL 2.30 builds over the same ranks.
TEST(Trees, AreThoseOfTheReference) {
  const auto path = std::filesystem::path("algorithms/builders/testdata/double_tree.csv");
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string line;
  std::getline(file, line);
  ASSERT_EQ(line, "n,rank,t0_parent,t0_child0,t0_child1,t1_parent,t1_child0,t1_child1");
  int lines = 0;
  for (; std::getline(file, line); ++lines) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream words(line);
    int n = 0;
    int rank = 0;
    std::array<TreeNode, 2> expected{};
    words >> n >> rank;
    for (auto& node : expected) words >> node.parent >> node.children[0] >> node.children[1];
    ASSERT_TRUE(words) << line;
    EXPECT_EQ(DoubleTree(rank, n), expected) << line;
  }
  EXPECT_EQ(lines, kReferenceRanks * (kReferenceRanks + 1) / 2);
}

TEST(Trees, BothSpanAllRanksAndNobodyWorksHardInBoth) {
  for (int n = 1; n <= kProvedRanks; ++n) {
    std::array<std::vector<TreeNode>, 2> trees;
    std::array<int, 2> roots{};
    int busy = 0;
    for (int rank = 0; rank < n; ++rank) {
      const auto nodes = DoubleTree(rank, n);
      busy += HasChildren(nodes[0]) && HasChildren(nodes[1]);
      for (int t = 0; t < 2; ++t) {
        trees[t].push_back(nodes[t]);
        if (nodes[t].parent == -1) roots[t] = rank;
      }
    }
    for (int t = 0; t < 2; ++t) ExpectTree(trees[t], roots[t], Depth(n));
    EXPECT_LE(busy, 1) << n;
    EXPECT_TRUE(n == 1 || roots[0] != roots[1]) << n;
  }
}

// Two trees are as fast as the links: with half of the data on each, no rank sends or receives more than in a ring, the
// whole once up and once down, over links that no other traffic of the same direction and phase uses.
TEST(Trees, TogetherUseEveryLinkOnceAndNoMore) {
  for (int n = 2; n <= kProvedRanks; ++n) {
    for (int rank = 0; rank < n; ++rank) {
      const auto nodes = DoubleTree(rank, n);
      const auto children = [](const TreeNode& node) { return 2 - std::ranges::count(node.children, -1); };
      // With two halves to parents, that is four halves sent and four received.
      EXPECT_LE(children(nodes[0]) + children(nodes[1]), 2) << rank << " of " << n;
      // A rank is a leaf in at least one tree, except rank 0 of an odd number: it is a root with one child, and
      // elsewhere the parent of one.
      const bool works_in_both = HasChildren(nodes[0]) && HasChildren(nodes[1]);
      EXPECT_EQ(works_in_both, n % 2 == 1 && rank == 0) << rank << " of " << n;
      // No rank sends both halves up the same link. (Three ranks do not have enough links.)
      if (n != 3 && nodes[0].parent != -1) {
        EXPECT_NE(nodes[0].parent, nodes[1].parent) << rank << " of " << n;
      }
    }
  }
}

TEST(Trees, RootedOnesHangOnTheRootAndOnlyItWorksInBoth) {
  for (int n = 1; n <= kReferenceRanks; ++n) {
    for (const int root : {0, n / 2, n - 1}) {
      std::array<std::vector<TreeNode>, 2> trees;
      for (int rank = 0; rank < n; ++rank) {
        const auto nodes = RootedDoubleTree(rank, n, root);
        EXPECT_TRUE(rank == root || !HasChildren(nodes[0]) || !HasChildren(nodes[1])) << rank << " of " << n;
        for (int t = 0; t < 2; ++t) trees[t].push_back(nodes[t]);
      }
      for (const auto& tree : trees) ExpectTree(tree, root, Depth(n));
    }
  }
}

}  // namespace
}  // namespace tutti::builders
