// Two-level: first the ranks of a node work together, each for the rail that it serves (rails.h), then the servers of
// each rail across the nodes, then the ranks of each node again. So the slow network between nodes carries each byte as
// rarely as possible, and all of a node's NICs share the work; the links inside a node do the rest at their own speed.
//
// Between nodes two_level uses rings (chains, where there is a root), two_level_tree double binary trees (trees.h). A
// rank's work is cut into lanes that overlap, so that both levels are busy at once:
//   give       this rank's contributions, to the local ranks that serve their rails
//   rail       receives over the rail, adds what the node gives, sends on; results also go to the node. A tree has two
//              of these, up and down, so that later chunks climb while earlier ones descend
//   take       results of rails that other local ranks serve
// Gives and results travel in the same direction between the same ranks, but in different orders: connections 0 and 1.
#include <algorithm>
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/node_lanes.h"
#include "algorithms/builders/rail_exchange.h"
#include "algorithms/builders/trees.h"

namespace tutti::builders {
namespace {

// ---- rings ----

// On rail j, block (j, b) starts at node b + 1, collects every node's contributions on its way round and is complete at
// node b; then it goes round once more, nearest first. This is a ring of nodes (ring.cc), where a node's step adds its
// ranks' contributions and gives them the results. A rank that serves several rails takes them one after the other, so
// it is never more than one slot ahead of what it receives. All ranks keep that order, or uneven nodes might wait for
// each other in a circle.
class RailRing {
 public:
  RailRing(const ScheduleRequest& request, const Rails& rails, Inside inside)
      : collective_(request.collective),
        rails_(rails),
        lanes_(rails, request.rank, inside),
        index_(rails.IndexOf(request.rank)),
        n_(rails.nodes()) {
    for (int first = 0; first < rails.rails(); first += rails.width()) {
      const int end = std::min(first + rails.width(), rails.rails());
      for (int round = n_ - 1; round > 0 && IsReducing(collective_); --round)
        EachRail(first, end, round, &Self::Reduce);
      EachRail(first, end, 0, &Self::Finish);
      for (int round = 1; round < n_ && collective_ != Collective::reduce_scatter; ++round) {
        EachRail(first, end, round, &Self::Collect);
      }
    }
  }

  Channel channel() && { return std::move(lanes_).channel(); }

 private:
  using Self = RailRing;

  // The rail's block that is complete at the node: its rank's own, or a part of the buffer. -1: a smaller node, which
  // has no rank there.
  int BlockOf(int rail, int node) const {
    if (collective_ == Collective::all_reduce) return rail * n_ + node;
    return rail < std::ssize(rails_.RanksOn(node)) ? rails_.Server(node, rail) : -1;
  }
  Operand FromPrevious(int rail) const { return From(rails_.Server(Around(lanes_.node() - 1, n_), rail)); }
  Operand ToNext(int rail) const { return To(rails_.Server(Around(lanes_.node() + 1, n_), rail)); }

  // Calls step(rail, block, distance) for each rail's block whose home is `distance` nodes ahead (reducing) or behind
  // (collecting).
  void EachRail(int first, int end, int distance, void (Self::*step)(int, int, int)) {
    const bool collecting = step == &Self::Collect;
    // Each rank starts after its own rail, so that a node's ranks do not all turn to one server first.
    for (int i = 1; i <= end - first; ++i) {
      const int rail = first + (index_ + i) % (end - first);
      const int block = BlockOf(rail, Around(lanes_.node() + (collecting ? -distance : distance), n_));
      if (block != -1) (this->*step)(rail, block, distance);
    }
  }

  void Reduce(int rail, int block, int distance) {
    if (!lanes_.Serves(rail)) return lanes_.Give(rail, block);
    std::vector<Operand> reads = lanes_.Given(rail, block);
    if (distance < n_ - 1) reads.push_back(FromPrevious(rail));
    lanes_.Up(MakeStep(block, std::move(reads), {ToNext(rail)}));
  }

  // The node's own block is complete here.
  void Finish(int rail, int block, int) {
    const bool reducing = IsReducing(collective_);
    const bool scattering = collective_ == Collective::reduce_scatter;
    if (!lanes_.Serves(rail)) {
      if (reducing) lanes_.Give(rail, block);
      if (!scattering) lanes_.Take(rail, block);
      return;
    }
    std::vector<Operand> reads = reducing ? lanes_.Given(rail, block) : std::vector<Operand>{In(block)};
    if (reducing && n_ > 1) reads.push_back(FromPrevious(rail));
    std::vector<Operand> writes = {Out(block)};
    if (!scattering) {
      if (n_ > 1) writes.push_back(ToNext(rail));
      lanes_.AddResults(writes);
    }
    Step step = MakeStep(block, std::move(reads), std::move(writes));
    step.final = reducing;
    lanes_.Up(std::move(step));
  }

  void Collect(int rail, int block, int distance) {
    if (!lanes_.Serves(rail)) return lanes_.Take(rail, block);
    std::vector<Operand> writes = {Out(block)};
    if (distance < n_ - 1) writes.push_back(ToNext(rail));
    lanes_.AddResults(writes);
    lanes_.Up(MakeStep(block, {FromPrevious(rail)}, std::move(writes)));
  }

  Collective collective_;
  const Rails& rails_;
  NodeLanes lanes_;
  int index_;  // on the node
  int n_;      // nodes
};

// ---- trees ----

// One block a rail, which goes up a tree of nodes, or down, or both. `tree` is this rank's node in it.
class RailTree {
 public:
  RailTree(const ScheduleRequest& request, const Rails& rails, const TreeNode& tree)
      : root_(request.root),
        rank_(request.rank),
        has_root_(HasRoot(request.collective)),
        rails_(rails),
        tree_(tree),
        lanes_(rails, request.rank, Inside::links) {
    for (int rail = 0; rail < rails.rails(); ++rail) {
      if (IsReducing(request.collective)) Up(rail);
      if (request.collective != Collective::reduce) Down(rail, request.collective == Collective::all_reduce);
    }
  }

  Channel channel() && { return std::move(lanes_).channel(); }

 private:
  bool at_top() const { return tree_.parent == -1; }
  Operand Parent(Operand (*end)(int), int rail) const { return end(rails_.Server(tree_.parent, rail)); }
  void AddChildren(std::vector<Operand>& operands, Operand (*end)(int), int rail) const {
    for (const int child : tree_.children) {
      if (child != -1) operands.push_back(end(rails_.Server(child, rail)));
    }
  }
  // The output, the nodes below and the ranks here.
  std::vector<Operand> Below(int rail) const {
    std::vector<Operand> writes = {Out(rail)};
    AddChildren(writes, To, rail);
    lanes_.AddResults(writes, has_root_ ? root_ : -1);
    return writes;
  }

  void Up(int rail) {
    if (!lanes_.Serves(rail)) {
      lanes_.Give(rail, rail);
      if (has_root_ && rank_ == root_) lanes_.Take(rail, rail);
      return;
    }
    std::vector<Operand> reads = lanes_.Given(rail, rail);
    AddChildren(reads, From, rail);
    if (!at_top()) return lanes_.Up(MakeStep(rail, std::move(reads), {Parent(To, rail)}));
    const auto to_root = [&] { return std::vector{rank_ == root_ ? Out(rail) : By(kResults, To(root_))}; };
    lanes_.Up(Finally(MakeStep(rail, std::move(reads), has_root_ ? to_root() : Below(rail))));
  }

  // `turned`: the top has already done this on the way up.
  void Down(int rail, bool turned) {
    const bool source = has_root_ && rank_ == root_;
    if (!lanes_.Serves(rail)) return source ? lanes_.GiveWhole(rail, rail) : lanes_.Take(rail, rail);
    if (at_top() && turned) return;
    const Operand read = source ? In(rail) : at_top() ? By(kGiving, From(root_)) : Parent(From, rail);
    lanes_.Down(MakeStep(rail, {read}, Below(rail)));
  }

  int root_;
  int rank_;
  bool has_root_;
  const Rails& rails_;
  TreeNode tree_;
  NodeLanes lanes_;
};

// The nodes as a chain, the root's first.
TreeNode Chain(int node, int nodes, int root) {
  const int place = Around(node - root, nodes);
  return {place == 0 ? -1 : Around(node - 1, nodes), {place == nodes - 1 ? -1 : Around(node + 1, nodes), -1}};
}

// ---- both ----

Schedule Finish(const ScheduleRequest& request, const Rails& rails, int blocks) {
  Schedule schedule = Answer(request, blocks, {});
  schedule.channels.clear();
  schedule.connections = kNodeConnections;
  // A server adds all contributions of its node to what two more nodes send it.
  schedule.scratch_blocks = rails.rails() + 2 > kMaxReads ? 1 : 0;
  schedule.reference_safe = true;
  // A result comes to a rank only after the rank's contribution to it has been read.
  schedule.reference_safe_in_place = true;
  return schedule;
}

}  // namespace

Channel RailRingChannel(const ScheduleRequest& request, const Rails& rails, Inside inside) {
  return RailRing(request, rails, inside).channel();
}

Schedule BuildTwoLevel(const ScheduleRequest& request) {
  const Rails rails(request);
  const Collective collective = request.collective;
  if (collective == Collective::all_to_all) return ExchangeOverRails(request, rails);
  const bool whole = HasRoot(collective);
  const bool cut = collective == Collective::all_reduce;
  Schedule schedule = Finish(request, rails,
                             whole ? rails.rails()
                             : cut ? rails.rails() * rails.nodes()
                                   : request.nranks);
  const auto chain = [&] { return Chain(rails.NodeOf(request.rank), rails.nodes(), rails.NodeOf(request.root)); };
  schedule.channels =
      Repeated(whole ? RailTree(request, rails, chain()).channel() : RailRingChannel(request, rails, Inside::links),
               request.channels);
  return schedule;
}

Schedule BuildTwoLevelTree(const ScheduleRequest& request) {
  const Rails rails(request);
  Schedule schedule = Finish(request, rails, rails.rails());
  const int node = rails.NodeOf(request.rank);
  const auto trees = HasRoot(request.collective) ? RootedDoubleTree(node, rails.nodes(), rails.NodeOf(request.root))
                                                 : DoubleTree(node, rails.nodes());
  for (int i = 0; i < request.channels; ++i) {
    for (const TreeNode& tree : trees) schedule.channels.push_back(RailTree(request, rails, tree).channel());
  }
  return schedule;
}

}  // namespace tutti::builders
