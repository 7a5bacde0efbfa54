// The shape of two binary trees over the same ranks, arranged so that a rank that works hard in one has little to do in
// the other.
//
// Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009).
//
// Thread-safety: pure functions.
#pragma once

#include <array>

namespace tutti::builders {

inline constexpr int kTrees = 2;

struct TreeNode {
  int parent = -1;                         // -1: the root
  std::array<int, 2> children = {-1, -1};  // -1: none; a root has at most the second
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

// `rank`'s neighbours in both trees, whose roots differ (all-reduce). At most one rank has children in both.
// REQUIRES: 0 <= rank < nranks.
std::array<TreeNode, kTrees> DoubleTree(int rank, int nranks);

// The same for two trees that both hang on `root` (broadcast, reduce). Only `root` has children in both, one in each.
// REQUIRES: 0 <= rank, root < nranks.
std::array<TreeNode, kTrees> RootedDoubleTree(int rank, int nranks, int root);

}  // namespace tutti::builders
