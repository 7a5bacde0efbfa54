// Binomial trees, turned so that any rank can be the root: the fewest rounds for rooted collectives. In gather and
// scatter every block travels in a slot of its own.
//
// Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005).
#include <algorithm>
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// Nodes are ranks counted from the root. Node v's parent is v without its lowest bit; its subtree is the interval
// [v, v + lowest bit), cut at n:
//
//     0-------+-------+-------+
//     |       |       |       |
//     1       2---+   4---+   8 ...
//                 3   5   6-7
//
class Node {
 public:
  Node(int rank, int n, int root) : node_(Around(rank - root, n)), n_(n), root_(root) {}

  bool is_root() const { return node_ == 0; }
  int parent() const { return RankOf(node_ & (node_ - 1)); }

  // Smallest subtree first.
  std::vector<int> children() const {
    std::vector<int> children;
    for (int bit = 1; bit < RemoteAccess() && node_ + bit < n_; bit *= 2) children.push_back(RankOf(node_ + bit));
    return children;
  }

  // All ranks below, nearest first, and the child through which each is reached.
  struct Descendant {
    int rank;
    int child;
  };
  std::vector<Descendant> descendants() const {
    std::vector<Descendant> all;
    for (int bit = 1; bit < RemoteAccess(); bit *= 2) {
      for (int v = node_ + bit; v < std::min(node_ + 2 * bit, n_); ++v) {
        all.push_back({RankOf(v), RankOf(node_ + bit)});
      }
    }
    return all;
  }

 private:
  // The length of the subtree's interval, uncut.
  int RemoteAccess() const { return is_root() ? n_ : node_ & -node_; }
  int RankOf(int node) const { return Around(node + root_, n_); }

  int node_;
  int n_;
  int root_;
};

// Largest subtree first. Children that one step cannot write to get the output from the next step.
std::vector<Step> Broadcast(const Node& node) {
  std::vector<Step> steps = {MakeStep(0, {node.is_root() ? In(0) : From(node.parent())}, {Out(0)})};
  std::vector<int> children = node.children();
  std::reverse(children.begin(), children.end());
  for (const int child : children) {
    if (steps.back().writes.size() == kMaxWrites) steps.push_back(MakeStep(0, {Out(0)}, {}));
    steps.back().writes.push_back(To(child));
  }
  return steps;
}

std::vector<Step> Reduce(const Node& node) {
  Step step = MakeStep(0, {Scaled(0)}, {node.is_root() ? Out(0) : To(node.parent())});
  for (const int child : node.children()) step.reads.push_back(From(child));
  step.final = node.is_root();
  return {step};
}

// Nearest first: this rank's block, then those that the children had ready first.
std::vector<Step> Gather(const Node& node, int rank) {
  const auto destination = [&](int block) { return node.is_root() ? Out(block) : To(node.parent()); };
  std::vector<Step> steps = {MakeStep(rank, {In(rank)}, {destination(rank)})};
  for (const auto& [block, child] : node.descendants()) {
    steps.push_back(MakeStep(block, {From(child)}, {destination(block)}));
  }
  return steps;
}

// Farthest first, this rank's own block last.
std::vector<Step> Scatter(const Node& node, int rank) {
  const auto source = [&](int block) { return node.is_root() ? In(block) : From(node.parent()); };
  std::vector<Step> steps = {MakeStep(rank, {source(rank)}, {Out(rank)})};
  for (const auto& [block, child] : node.descendants()) {
    steps.push_back(MakeStep(block, {source(block)}, {To(child)}));
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::vector<Step> StepsFor(Collective collective, const Node& node, int rank) {
  switch (collective) {
    case Collective::broadcast: return Broadcast(node);
    case Collective::reduce: return Reduce(node);
    case Collective::gather: return Gather(node, rank);
    case Collective::scatter: return Scatter(node, rank);
    default: return {};
  }
}

}  // namespace

Schedule BuildBinomial(const ScheduleRequest& request) {
  const auto& [collective, rank, n, root, channels, where, posts] = request;
  const bool whole = collective == Collective::broadcast || collective == Collective::reduce;
  Schedule schedule = Answer(request, whole ? 1 : n, ChannelOf(Lane{StepsFor(collective, Node(rank, n, root), rank)}));
  // Inputs are only read, outputs written once.
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = true;
  return schedule;
}

}  // namespace tutti::builders
