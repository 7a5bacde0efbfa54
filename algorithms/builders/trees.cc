#include "algorithms/builders/trees.h"

#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// The number in [low, high) that the highest power of two divides; -1 if there is none.
int Top(int low, int high) {
  if (low >= high) return -1;
  int power = 1;
  while ((high - 1) / (2 * power) * (2 * power) >= low) power *= 2;
  return (high - 1) / power * power;
}

// 0 hangs above a binary search tree of 1..n-1, whose inner nodes are the even numbers:
//
//     0---------------8
//             4-------+------12
//         2---+---6       10--+
//       1-+-3   5-+-7    9-+-11         n = 13
//
// REQUIRES: 0 <= node < n.
TreeNode SearchTree(int node, int n) {
  if (node == 0) return {-1, {-1, Top(1, n)}};
  int parent = 0;
  int low = 1;
  int high = n;
  for (int here = Top(low, high); here != node; here = Top(low, high)) {
    parent = here;
    (node < here ? high : low) = node < here ? here : here + 1;
  }
  return {parent, {Top(low, node), Top(node + 1, high)}};
}

// The node's neighbours under other names.
template <typename Rename>
TreeNode Renamed(TreeNode node, Rename rename) {
  for (int* neighbour : {&node.parent, &node.children[0], &node.children[1]}) {
    if (*neighbour != -1) *neighbour = rename(*neighbour);
  }
  return node;
}

}  // namespace

// The second tree is the first with odd and even exchanged: mirrored, or, where the mirror keeps parity, moved on by
// one.
std::array<TreeNode, kTrees> DoubleTree(int rank, int nranks) {
  const auto mirror = [nranks](int r) { return nranks - 1 - r; };
  const auto on = [nranks](int r) { return Around(r + 1, nranks); };
  const TreeNode first = SearchTree(rank, nranks);
  if (nranks % 2 == 0) return {first, Renamed(SearchTree(mirror(rank), nranks), mirror)};
  return {first, Renamed(SearchTree(Around(rank - 1, nranks), nranks), on)};
}

// Likewise, but 0 (the root, after rotating the numbers) stays what it is and only 1..n-1 change names.
std::array<TreeNode, kTrees> RootedDoubleTree(int rank, int nranks, int root) {
  const int node = Around(rank - root, nranks);
  const auto turn = [=](int v) { return Around(v + root, nranks); };
  const auto mirror = [=](int v) { return v == 0 ? 0 : nranks - v; };
  const auto on = [=](int v) { return v == 0 ? 0 : v % (nranks - 1) + 1; };
  const auto back = [=](int v) { return v == 0 ? 0 : Around(v - 2, nranks - 1) + 1; };
  const TreeNode first = SearchTree(node, nranks);
  const TreeNode second =
      nranks % 2 == 1 ? Renamed(SearchTree(mirror(node), nranks), mirror) : Renamed(SearchTree(back(node), nranks), on);
  return {Renamed(first, turn), Renamed(second, turn)};
}

}  // namespace tutti::builders
