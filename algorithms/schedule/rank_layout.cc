#include "algorithms/schedule/rank_layout.h"

#include <algorithm>
#include <map>

namespace tutti::schedule {

RankLayout ArrangeByNode(std::span<const int> labels) {
  RankLayout rank_layout;
  std::map<int, int> numbers;
  for (std::size_t rank = 0; rank < labels.size(); ++rank) {
    const int node = numbers.emplace(labels[rank], static_cast<int>(numbers.size())).first->second;
    rank_layout.node_of.push_back(node);
    if (node == rank_layout.nodes()) rank_layout.ranks_on.emplace_back();
    rank_layout.ranks_on[node].push_back(static_cast<int>(rank));
  }
  return rank_layout;
}

RankLayout ArrangeEvenly(int nranks, int nodes) {
  std::vector<int> labels;
  for (int node = 0; node < nodes; ++node) {
    const int ranks = nranks / nodes + (node < nranks % nodes ? 1 : 0);
    labels.insert(labels.end(), ranks, node);
  }
  return ArrangeByNode(labels);
}

namespace {

// All places of a node from `entry` to `exit`, by neighbours as far as that goes. REQUIRES: entry != exit, or one place.
std::vector<int> PathThrough(int places, int entry, int exit) {
  const int step = exit == (entry + 1) % places ? places - 1 : 1;
  std::vector<int> path;
  for (int i = 0, place = entry; i < places; ++i, place = (place + step) % places) {
    if (place != exit) path.push_back(place);
  }
  path.push_back(exit);
  return path;
}

}  // namespace

std::vector<std::vector<int>> TurnedRings(const RankLayout& rank_layout) {
  const auto& nodes = rank_layout.ranks_on;
  std::size_t most = 0;
  for (const auto& ranks : nodes) most = std::max(most, ranks.size());
  // How far before the channel's place a node is entered. Nodes take turns, so that one is left at the place where the next
  // is entered; with an odd number of nodes, the last one takes a third place.
  const auto turn = [&](std::size_t node) {
    return node > 1 && node + 1 == nodes.size() && node % 2 == 0 ? 2 : static_cast<int>(node % 2);
  };
  std::vector<std::vector<int>> rings;
  for (int channel = 0; channel < static_cast<int>(most); ++channel) {
    auto& ring = rings.emplace_back();
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      const auto places = static_cast<int>(nodes[node].size());
      const auto at = [&](int turns) { return ((channel - turns) % places + places) % places; };
      const int entry = at(turn(node));
      int exit = at(turn((node + 1) % nodes.size()));
      if (exit == entry) exit = (entry + places - 1) % places;
      for (const int place : PathThrough(places, entry, exit))
        ring.push_back(nodes[node][static_cast<std::size_t>(place)]);
    }
  }
  return rings;
}

}  // namespace tutti::schedule
