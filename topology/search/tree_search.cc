#include "topology/search/tree_search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "topology/graph/rails.h"
#include "topology/search/hop_graph.h"

namespace tutti::search {
namespace {

// An interior GPU's link carries up to three edges of a tree, each root has a tree, and 8 roots are usual.
constexpr int kTreeParts = 32;
// Edges that a search may visit, over all bandwidths: half a second. 72 GPUs on one switch have their trees after 5
// million.
constexpr long kEffort = 6'000'000;

struct Edge {
  int parent = -1;  // ends
  int child = -1;
  double price = std::numeric_limits<double>::infinity();
};

std::vector<int> LinksOf(const HopGraph& graph, int a, int b) {
  std::vector<int> links = graph.hops(a, b)[0].links;
  const std::vector<int>& back = graph.hops(b, a)[0].links;
  links.insert(links.end(), back.begin(), back.end());
  return links;
}

// The tree grows by its cheapest edge; each edge raises the price of its links before the next edge is sought.
class Growth {
 public:
  Growth(const HopGraph& graph, FreeLinks& free, double bandwidth, int root, long& effort)
      : graph_(graph),
        free_(free),
        bandwidth_(bandwidth),
        effort_(effort),
        children_(graph.size(), 0),
        planted_(graph.size(), false),
        refused_(static_cast<std::size_t>(graph.size()) * graph.size(), false) {
    Plant({-1, root});
  }

  std::optional<SpanningTree> Grow() {
    while (static_cast<int>(ends_.size()) < graph_.size()) {
      Edge edge = Cheapest();
      if (edge.child < 0) {
        free_.GiveBack(tree_.links, bandwidth_);
        return std::nullopt;
      }
      const std::vector<int> links = LinksOf(graph_, edge.parent, edge.child);
      if (!free_.Take(links, bandwidth_)) {  // it crosses one link twice, which had room for once
        refused_[PlaceOf(edge.parent, edge.child)] = true;
        continue;
      }
      tree_.links.insert(tree_.links.end(), links.begin(), links.end());
      ++children_[edge.parent];
      Plant(edge);
    }
    return std::move(tree_);
  }

 private:
  void Plant(const Edge& edge) {
    planted_[edge.child] = true;
    ends_.push_back(edge.child);
    tree_.order.push_back(graph_.device(edge.child));
    tree_.parent.push_back(edge.parent < 0 ? -1 : graph_.device(edge.parent));
  }

  std::size_t PlaceOf(int parent, int child) const {
    return static_cast<std::size_t>(parent) * static_cast<std::size_t>(graph_.size()) + static_cast<std::size_t>(child);
  }

  // Returns no child if there is none, or the effort is spent.
  Edge Cheapest() const {
    Edge best;
    for (const int parent : ends_) {
      if (children_[parent] == kMostChildren) continue;
      if ((effort_ -= graph_.size()) < 0) return {};
      for (int child = 0; child < graph_.size(); ++child) {
        if (planted_[child] || graph_.hops(parent, child).empty() || graph_.hops(child, parent).empty()) continue;
        const std::vector<int>& there = graph_.hops(parent, child)[0].links;
        const std::vector<int>& back = graph_.hops(child, parent)[0].links;
        const auto full = [&](int link) { return !free_.Fits(link, bandwidth_); };
        if (refused_[PlaceOf(parent, child)] || std::ranges::any_of(there, full) || std::ranges::any_of(back, full)) {
          continue;
        }
        double price = 0;
        for (const int link : there) price += free_.Price(link);
        for (const int link : back) price += free_.Price(link);
        if (price < best.price) best = {parent, child, price};
      }
    }
    return best;
  }

  const HopGraph& graph_;
  FreeLinks& free_;
  double bandwidth_;
  long& effort_;
  SpanningTree tree_;
  std::vector<int> ends_;      // planted, in order
  std::vector<int> children_;  // by end
  std::vector<bool> planted_;  // by end
  std::vector<bool> refused_;  // by PlaceOf
};

std::vector<SpanningTree> Pack(const topology::System& system, const HopGraph& graph, double bandwidth,
                               const std::vector<int>& roots, long& effort) {
  FreeLinks free(system);
  std::vector<SpanningTree> trees;
  for (const int root : roots) {
    std::optional<SpanningTree> tree = Growth(graph, free, bandwidth, root, effort).Grow();
    if (!tree) return {};
    trees.push_back(std::move(*tree));
  }
  return trees;
}

}  // namespace

SpanningTrees SearchTrees(const topology::System& system, int host, const std::vector<int>& roots) {
  const HopGraph graph(system, host, NicReach::none);
  std::vector<int> root_ends;
  for (int end = 0; end < graph.size(); ++end) {
    root_ends.insert(root_ends.end(), std::count(roots.begin(), roots.end(), graph.device(end)), end);
  }
  if (graph.size() < 2 || root_ends.empty()) return {};
  long effort = kEffort;
  for (const double bandwidth : CandidateBandwidths(system, graph, kTreeParts)) {
    if (effort < 0) break;
    std::vector<SpanningTree> trees = Pack(system, graph, bandwidth, root_ends, effort);
    if (!trees.empty()) return {std::move(trees), bandwidth};
  }
  return {};
}

std::vector<int> RailRoots(const topology::System& system, int host) {
  const std::vector<int> ends = topology::RingEnds(system, host);
  const std::vector<std::vector<int>> nics = topology::NearestNics(system, host);
  std::vector<int> roots;
  std::vector<int> seen;
  for (std::size_t k = 0; k < ends.size(); ++k) {
    for (const int nic : nics[k]) {
      if (std::find(seen.begin(), seen.end(), nic) != seen.end()) continue;  // another GPU's already
      seen.push_back(nic);
      roots.push_back(ends[k]);
    }
  }
  return roots.empty() ? ends : roots;
}

}  // namespace tutti::search
