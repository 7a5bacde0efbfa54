// Where ranks are, as far as schedules need it: each rank's node, and the orders in which rings visit the ranks. It
// comes from the topology (or a setting that pretends one), and is equal on all ranks.
//
// Thread-safety: value type.
#pragma once

#include <span>
#include <vector>

namespace tutti::schedule {

struct RankLayout {
  std::vector<int> node_of = {};                // by rank; nodes are numbered 0.. in the order of their first ranks
  std::vector<std::vector<int>> ranks_on = {};  // by node, ascending
  // Orders in which rings visit the ranks; channel c takes rings[c % size]. Empty: by rank.
  std::vector<std::vector<int>> rings = {};

  int nodes() const { return static_cast<int>(ranks_on.size()); }
  int nranks() const { return static_cast<int>(node_of.size()); }
};

// Makes a rank layout from any labels that are equal where ranks share a node: {7, 7, 3} is {0, 0, 1}.
RankLayout ArrangeByNode(std::span<const int> labels);

// `nranks` ranks cut into `nodes` runs of consecutive ranks, as even as can be, the longer ones first.
// REQUIRES: 1 <= nodes <= nranks.
RankLayout ArrangeEvenly(int nranks, int nodes);

// Rings that cross from node to node at another rank in each channel, so that every rank's NIC gets its share, and between
// ranks of one place on their nodes, so that messages stay on a rail. (One crossing of each ring does not where an odd
// number of nodes has two ranks each.) REQUIRES: nodes() >= 1.
std::vector<std::vector<int>> TurnedRings(const RankLayout& rank_layout);

}  // namespace tutti::schedule
