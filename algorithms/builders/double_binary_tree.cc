// Double binary tree: half of the data goes up and down one tree, half another, so that every rank's links are busy
// both ways and the depth is logarithmic. Sanders, Speck and Traeff (2009), see trees.h.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"
#include "algorithms/builders/trees.h"

namespace tutti::builders {
namespace {

std::vector<Operand> FromChildren(const TreeNode& node) {
  std::vector<Operand> operands;
  for (const int child : node.children) {
    if (child != -1) operands.push_back(From(child));
  }
  return operands;
}

std::vector<Operand> ToChildren(const TreeNode& node) {
  std::vector<Operand> operands;
  for (const int child : node.children) {
    if (child != -1) operands.push_back(To(child));
  }
  return operands;
}

// Sums the children's data and the node's own, for the parent or, at the root, for `destinations_at_root`.
Step Up(const TreeNode& node, std::vector<Operand> destinations_at_root) {
  std::vector<Operand> reads = FromChildren(node);
  reads.push_back(Scaled(0));
  if (node.parent == -1) return Finally(MakeStep(0, std::move(reads), std::move(destinations_at_root)));
  return MakeStep(0, std::move(reads), {To(node.parent)});
}

// The output and the children.
std::vector<Operand> Below(const TreeNode& node) {
  std::vector<Operand> operands = ToChildren(node);
  operands.insert(operands.begin(), Out(0));
  return operands;
}

Step Down(const TreeNode& node) { return MakeStep(0, {node.parent == -1 ? In(0) : From(node.parent)}, Below(node)); }

// Two lanes, so that later chunks climb while earlier ones descend. The root turns each chunk round in one step.
Channel AllReduce(const TreeNode& node) {
  Lane up{{Up(node, Below(node))}};
  if (node.parent == -1) return {{std::move(up)}};
  return {{std::move(up), Lane{{Down(node)}}}};
}

Channel BuildChannel(Collective collective, const TreeNode& node) {
  switch (collective) {
    case Collective::all_reduce: return AllReduce(node);
    case Collective::broadcast: return {{Lane{{Down(node)}}}};
    case Collective::reduce: return {{Lane{{Up(node, {Out(0)})}}}};
    default: return {};
  }
}

}  // namespace

Schedule BuildDoubleBinaryTree(const ScheduleRequest& request) {
  const auto& [collective, rank, n, root, channels, where, posts] = request;
  Schedule schedule = Answer(request, 1, {});
  schedule.channels.clear();
  for (int i = 0; i < channels; ++i) {
    for (const TreeNode& node : HasRoot(collective) ? RootedDoubleTree(rank, n, root) : DoubleTree(rank, n)) {
      schedule.channels.push_back(BuildChannel(collective, node));
    }
  }
  schedule.reference_safe = true;
  // The result comes down only after the parent has read what went up.
  schedule.reference_safe_in_place = true;
  return schedule;
}

}  // namespace tutti::builders
