#include "algorithms/schedule/rank_layout.h"

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

}  // namespace tutti::schedule
