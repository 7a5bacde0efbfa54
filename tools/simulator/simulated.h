// Batches of simulations: every way of running a call on a machine that is worth trying, and the fastest of them.
//
// Thread-safety: pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "selection/simulator/simulate.h"
#include "tools/simulator/target.h"

namespace tutti::tools {

// The most ranks that are simulated one by one; beyond, it takes too long.
inline constexpr int kRanksInFull = 64;
// When one node stands for all nodes that do the same (node_classes.h).
enum class NodesStandIn {
  never,
  beyond_64_ranks,  // kRanksInFull; also where it is an approximation
  wherever_exact,   // and beyond 64 ranks
};

// The request; everything left open is tried.
struct Wish {
  schedule::Collective collective = schedule::Collective::all_reduce;
  std::vector<tuttiAlgorithm_t> algorithms = {};  // empty: all usable ones whose price is close enough to the lowest
  std::size_t bytes = 0;                          // of the larger side of a rank, as in nccl-tests
  int channels = 0;                               // 0: try some
  std::optional<ring::Protocol> protocol = {};
  std::size_t chunk_bytes = 0;  // 0: try some
  NodesStandIn nodes_stand_in = NodesStandIn::beyond_64_ranks;
  // Replaces `algorithms`: all ranks' schedules, for this collective and as many ranks as the machine has.
  const std::vector<schedule::Schedule>* program = nullptr;
};

struct Outcome {
  simulator::SimulatedCall call;
  simulator::SimulationResult result;
  std::optional<simulator::NodeClasses> node_classes;  // if nodes stood for others
};

// The number of ways that are done, and of all.
using Told = std::function<void(std::size_t done, std::size_t of)>;
// The fastest way. Throws if there is none. `tell` is called before each way is run.
Outcome Fastest(
    const Target& target, const Wish& wish, const Told& tell = [](std::size_t, std::size_t) {});
// Every way that Fastest compares.
std::vector<simulator::SimulatedCall> Candidates(const Target& target, const Wish& wish);
Outcome Run(const cost_model::Machine& machine, const simulator::SimulatedCall& call, NodesStandIn nodes_stand_in,
            simulator::Timeline* timeline = nullptr);

// Converts `bytes` on a rank's larger side to what pricing and simulating take: a rank's block, or all.
std::size_t BytesOfBlock(schedule::Collective collective, std::size_t bytes, int ranks);

// As in nccl-tests: algorithm bandwidth is bytes of the larger side over time; times BusFactor, it is the load on each
// rank's link, independent of the algorithm.
double BusFactor(schedule::Collective collective, int ranks);
double AlgorithmBandwidth(std::size_t bytes, double us);  // GB/s

}  // namespace tutti::tools
