// NVLS (NVLink SHARP): a switch between the GPUs of a node adds what they contribute, and multiplies what one of them
// stores for all. So a GPU sends and receives each byte of an all-reduce about once, where a ring does twice.
//
//   contribute   this rank's data, into slots of its own memory, each for the rank that reduces the block
//   reduce       reads the sum of a block, and stores it for all ranks of the node
//   take         results of blocks that others reduce
//
// On several nodes, the servers of a rail (rails.h) pass their nodes' sums of an all-reduce up one of two trees, and the
// result down: the reducing lane adds what the nodes below send; a lane of its own carries results down, as in two_level.cc.
// Reduce-scatter and all-gather go around the nodes as there, with the switch inside each node.
#include <algorithm>
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/node_lanes.h"
#include "algorithms/builders/rails.h"
#include "algorithms/builders/steps.h"
#include "algorithms/builders/trees.h"

namespace tutti::builders {
namespace {

Lane TakeFromOthers(int rank, int n) {
  Lane take;
  for (const int q : Others(rank, n)) take.steps.push_back(MakeStep(q, {Multicast(q)}, {Out(q)}));
  return take;
}

Channel ReduceScatterInSwitch(int rank, int n) {
  Lane contribute;
  for (int i = 1; i <= n; ++i) {
    const int q = Around(rank + i, n);
    contribute.steps.push_back(MakeStep(q, {Scaled(q)}, {Contribution(q)}));
  }
  return ChannelOf(std::move(contribute), Lane{{Finally(MakeStep(rank, {TeamSum()}, {Out(rank)}))}});
}

Channel AllGatherInSwitch(int rank, int n) {
  return ChannelOf(Lane{{MakeStep(rank, {In(rank)}, {Out(rank), Multicast(rank)})}}, TakeFromOthers(rank, n));
}

Channel Broadcast(int rank, int root) {
  if (rank == root) return ChannelOf(Lane{{MakeStep(0, {In(0)}, {Out(0), Multicast(root)})}});
  return ChannelOf(Lane{{MakeStep(0, {Multicast(root)}, {Out(0)})}});
}

Channel Reduce(int rank, int root) {
  Lane contribute{{MakeStep(0, {Scaled(0)}, {Contribution(root)})}};
  if (rank != root) return ChannelOf(std::move(contribute));
  return ChannelOf(std::move(contribute), Lane{{Finally(MakeStep(0, {TeamSum()}, {Out(0)}))}});
}

// A block for each rail; `tree` is this rank's node in the tree of nodes.
Channel AllReduce(const Rails& rails, int rank, const TreeNode& tree) {
  const int node = rails.NodeOf(rank);
  Lane contribute, up, down, take;
  const auto add_children = [&](std::vector<Operand>& operands, Operand (*end)(int), int rail) {
    for (const int child : tree.children) {
      if (child != -1) operands.push_back(end(rails.Server(child, rail)));
    }
  };
  const auto reduce = [&](int rail) {
    std::vector<Operand> reads{TeamSum()};
    add_children(reads, From, rail);
    std::vector<Operand> results{Out(rail)};
    if (rails.RanksOn(node).size() > 1) results.push_back(Multicast(rank));
    add_children(results, To, rail);
    if (tree.parent == -1) {
      up.steps.push_back(Finally(MakeStep(rail, std::move(reads), std::move(results))));
      return;
    }
    const int parent = rails.Server(tree.parent, rail);
    up.steps.push_back(MakeStep(rail, std::move(reads), {To(parent)}));
    down.steps.push_back(MakeStep(rail, {From(parent)}, std::move(results)));
  };
  for (int first = 0; first < rails.rails(); first += rails.width()) {
    const int end = std::min(first + rails.width(), rails.rails());
    for (int i = 1; i <= end - first; ++i) {
      // Ranks begin with different servers, so that one does not get all contributions at once.
      const int rail = first + (rails.IndexOf(rank) + i) % (end - first);
      const int server = rails.Server(node, rail);
      contribute.steps.push_back(MakeStep(rail, {Scaled(rail)}, {Contribution(server)}));
      if (server == rank) {
        reduce(rail);
      } else {
        take.steps.push_back(MakeStep(rail, {Multicast(server)}, {Out(rail)}));
      }
    }
  }
  Channel channel = ChannelOf(std::move(contribute));
  for (Lane* lane : {&up, &down, &take}) {
    if (!lane->steps.empty()) channel.lanes.push_back(std::move(*lane));
  }
  return channel;
}

Schedule Arranged(const ScheduleRequest& request, const Rails& rails) {
  const auto answer = [&](int blocks, Channel channel) { return Answer(request, blocks, std::move(channel)); };
  const int rank = request.rank, n = request.nranks;
  if (rails.nodes() > 1 && HasBlocksOfRanks(request.collective))
    return answer(n, RailRingChannel(request, rails, Inside::a_switch));
  switch (request.collective) {
    case Collective::reduce_scatter: return answer(n, ReduceScatterInSwitch(rank, n));
    case Collective::all_gather: return answer(n, AllGatherInSwitch(rank, n));
    case Collective::broadcast: return answer(1, Broadcast(rank, request.root));
    case Collective::reduce: return answer(1, Reduce(rank, request.root));
    default: break;
  }
  if (rails.nodes() == 1) return answer(n, AllReduce(rails, rank, {}));
  Schedule schedule = answer(rails.rails(), {});
  schedule.channels.clear();
  const auto trees = DoubleTree(rails.NodeOf(rank), rails.nodes());
  for (int i = 0; i < request.channels; ++i) {
    for (const TreeNode& tree : trees) schedule.channels.push_back(AllReduce(rails, rank, tree));
  }
  return schedule;
}

}  // namespace

Schedule BuildNvls(const ScheduleRequest& request) {
  const Rails rails(request);
  Schedule schedule = Arranged(request, rails);
  // Slots to other nodes may refer; those of the switch never do.
  schedule.reference_safe = schedule.reference_safe_in_place = true;
  schedule.team = rails.RanksOn(rails.NodeOf(request.rank));
  return schedule;
}

}  // namespace tutti::builders
