// Two-shot: direct reduce-scatter, then direct all-gather (or gather to the root). Each rank reduces one block, so the
// arithmetic is divided by nranks at the price of a second trip: the split of Rabenseifner, "Optimization of Collective
// Reduction Operations" (2004), with every pair meeting directly instead of over a hypercube.
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

constexpr int kConnections = 2;  // in each channel of an all-reduce without posts: for contributions and results

Step SendContribution(int q) { return MakeStep(q, {Scaled(q)}, {To(q)}); }

Step ReduceOwnBlock(int rank, int n, std::vector<Operand> writes) {
  return Finally(MakeStep(rank, ContributionsInRankOrder(rank, n, rank, From), std::move(writes)));
}

// Three lanes, so that a rank may send ahead and fetch results while it waits for contributions. Results that are not
// posted have connections of their own, because contributions may overtake them.
Channel AllReduce(int rank, int n, bool posts) {
  constexpr int kResults = kConnections - 1;
  Lane send;
  Lane reduce;
  if (posts) {
    reduce.steps.push_back(ReduceOwnBlock(rank, n, {Out(rank), Post(rank)}));
  } else {
    reduce.steps.push_back(ReduceOwnBlock(rank, n, {Out(rank)}));
    AppendForAll(reduce, rank, Out(rank), rank, n, posts, kResults);
  }
  Lane collect;
  for (const int q : Others(rank, n)) {
    send.steps.push_back(SendContribution(q));
    collect.steps.push_back(MakeStep(q, {posts ? Post(q) : By(kResults, From(q))}, {Out(q)}));
  }
  return {{std::move(send), std::move(reduce), std::move(collect)}};
}

// The second lane holds all that contributions and results share: the connections between the root and the others.
Channel Reduce(int rank, int n, int root) {
  Lane send;
  Lane reduce;
  for (const int q : Others(rank, n)) (q == root ? reduce : send).steps.push_back(SendContribution(q));
  reduce.steps.push_back(ReduceOwnBlock(rank, n, {rank == root ? Out(rank) : To(root)}));
  if (rank == root) {
    for (const int q : Others(rank, n)) reduce.steps.push_back(MakeStep(q, {From(q)}, {Out(q)}));
  }
  return {{std::move(send), std::move(reduce)}};
}

}  // namespace

Schedule BuildTwoShot(const ScheduleRequest& request) {
  const auto& [collective, rank, n, root, channels, where, posts] = request;
  Schedule schedule =
      Answer(request, n, collective == Collective::reduce ? Reduce(rank, n, root) : AllReduce(rank, n, posts));
  if (collective == Collective::all_reduce && !posts) schedule.connections = kConnections;
  schedule.reference_safe = true;
  schedule.reference_safe_in_place = true;
  return schedule;
}

}  // namespace tutti::builders
