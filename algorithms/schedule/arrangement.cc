#include "algorithms/schedule/arrangement.h"

#include <map>

namespace tutti {

Arrangement ArrangeByNode(std::span<const int> labels) {
  Arrangement arrangement;
  std::map<int, int> numbers;
  for (std::size_t rank = 0; rank < labels.size(); ++rank) {
    const int node = numbers.emplace(labels[rank], static_cast<int>(numbers.size())).first->second;
    arrangement.node_of.push_back(node);
    if (node == arrangement.nodes()) arrangement.ranks_on.emplace_back();
    arrangement.ranks_on[node].push_back(static_cast<int>(rank));
  }
  return arrangement;
}

Arrangement ArrangeEvenly(int nranks, int nodes) {
  std::vector<int> labels;
  for (int node = 0; node < nodes; ++node) {
    const int ranks = nranks / nodes + (node < nranks % nodes ? 1 : 0);
    labels.insert(labels.end(), ranks, node);
  }
  return ArrangeByNode(labels);
}

}  // namespace tutti
