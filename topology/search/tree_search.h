// Trees that span a host's GPUs (or NUMA nodes), packed into its links side by side. Data is reduced up a tree and
// spread down it at the same time, so an edge takes the tree's bandwidth from both directions of its links. Every GPU
// has at most two children. A chain, which uses each GPU's links least, is a tree like any other; where links are
// scarce, most trees found are nearly chains. Between hosts each tree goes on from its root, over the root's NICs
// (rails.h).
//
// Thread-safety: value types and pure functions. Deterministic.
#pragma once

#include <vector>

#include "topology/graph/system.h"

namespace tutti::search {

inline constexpr int kMostChildren = 2;

struct SpanningTree {
  std::vector<int> order = {};   // devices, the root first, each after its parent
  std::vector<int> parent = {};  // devices; of order[k]; -1: the root's
  std::vector<int> links = {};   // all links crossed, up and down
};

struct SpanningTrees {
  std::vector<SpanningTree> trees = {};
  double bandwidth = 0;  // GB/s of each, up and down at once
  double total() const { return bandwidth * static_cast<double>(trees.size()); }
};

// One tree per root, with the largest bandwidth found at which all fit. None if the GPUs are not all connected.
SpanningTrees SearchTrees(const topology::System& system, int host, const std::vector<int>& roots);

// The roots for trees that go on to other hosts: the GPU that each NIC serves. All GPUs if there is no NIC.
std::vector<int> RailRoots(const topology::System& system, int host);

}  // namespace tutti::search
