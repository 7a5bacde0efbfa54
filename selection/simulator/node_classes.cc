#include "selection/simulator/node_classes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/builders/records.h"
#include "algorithms/builders/trees.h"

namespace tutti::simulator {
namespace {

// Where a member stands in a tree.
struct Standing {
  int height = -1;
  int depth = -1;
  std::array<bool, 2> child = {};
  auto operator<=>(const Standing&) const = default;
};
using Standings = std::array<Standing, builders::kTrees>;

class TreeStandings {
 public:
  explicit TreeStandings(int n) : nodes_(n), standings_(n) {
    for (int i = 0; i < n; ++i) nodes_[i] = builders::DoubleTree(i, n);
    for (int i = 0; i < n; ++i) {
      for (int tree = 0; tree < builders::kTrees; ++tree) {
        Height(i, tree);
        Depth(i, tree);
      }
    }
  }
  const Standings& operator[](int member) const { return standings_[member]; }

 private:
  int Height(int i, int tree) {
    Standing& standing = standings_[i][tree];
    if (standing.height != -1) return standing.height;
    int height = 0;
    for (int c = 0; c < 2; ++c) {
      const int child = nodes_[i][tree].children[c];
      standing.child[c] = child != -1;
      if (child != -1) height = std::max(height, 1 + Height(child, tree));
    }
    return standing.height = height;
  }
  int Depth(int i, int tree) {
    Standing& standing = standings_[i][tree];
    if (standing.depth != -1) return standing.depth;
    const int parent = nodes_[i][tree].parent;
    return standing.depth = parent == -1 ? 0 : 1 + Depth(parent, tree);
  }

  std::vector<std::array<builders::TreeNode, builders::kTrees>> nodes_;
  std::vector<Standings> standings_;
};

// Classes of equal keys; the middle one of each class, as the most usual, stands for it.
template <typename Key>
NodeClasses ByKey(const std::vector<Key>& keys) {
  std::map<Key, std::vector<int>> members;
  for (std::size_t node = 0; node < keys.size(); ++node) members[keys[node]].push_back(static_cast<int>(node));
  NodeClasses node_classes;
  node_classes.class_of.resize(keys.size());
  for (const auto& [key, nodes] : members) {
    for (const int node : nodes) node_classes.class_of[node] = node_classes.classes();
    node_classes.node_of.push_back(nodes[nodes.size() / 2]);
  }
  return node_classes;
}

NodeClasses OneForAll(int nodes) { return {std::vector<int>(static_cast<std::size_t>(nodes), 0), {0}}; }

// Classes by the places of the nodes' members in the trees: their ranks or, in trees of nodes, the nodes themselves.
NodeClasses ClassesOfTree(const std::vector<std::vector<int>>& members_of, int members) {
  const TreeStandings standings(members);
  std::vector<std::vector<Standings>> keys;
  for (const auto& own : members_of) {
    auto& key = keys.emplace_back();
    for (const int member : own) key.push_back(standings[member]);
  }
  return ByKey(keys);
}

std::vector<std::vector<int>> Themselves(int nodes) {
  std::vector<std::vector<int>> selves;
  for (int node = 0; node < nodes; ++node) selves.push_back({node});
  return selves;
}

bool Even(const schedule::RankLayout& rank_layout) {
  return std::all_of(rank_layout.ranks_on.begin(), rank_layout.ranks_on.end(),
                     [&](const auto& ranks) { return ranks.size() == rank_layout.ranks_on.front().size(); });
}

// Only then do partners by exclusive-or keep their place on the node.
bool PowersOfTwo(const schedule::RankLayout& rank_layout) {
  return std::has_single_bit(static_cast<unsigned>(rank_layout.nranks())) &&
         std::has_single_bit(static_cast<unsigned>(rank_layout.nodes()));
}

}  // namespace

std::optional<NodeClasses> FindNodeClasses(tuttiAlgorithm_t algorithm, schedule::Collective collective,
                                           const schedule::RankLayout& rank_layout) {
  if (!Even(rank_layout)) return std::nullopt;
  const auto& record = builders::RecordOf(algorithm);
  if (record.needs.a_switch && rank_layout.nodes() == 1) return OneForAll(1);
  if (Has(record.nodes_differ, collective)) return std::nullopt;
  if (PatternOf(collective).reduces_for_all()) {
    switch (record.trees) {
      case builders::Trees::of_ranks: return ClassesOfTree(rank_layout.ranks_on, rank_layout.nranks());
      case builders::Trees::of_nodes: return ClassesOfTree(Themselves(rank_layout.nodes()), rank_layout.nodes());
      case builders::Trees::none: break;
    }
  }
  switch (record.SymmetryIn(collective)) {
    case builders::Symmetry::rotation: return OneForAll(rank_layout.nodes());
    case builders::Symmetry::exchange:
      if (PowersOfTwo(rank_layout)) return OneForAll(rank_layout.nodes());
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace tutti::simulator
