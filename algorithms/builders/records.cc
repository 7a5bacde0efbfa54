#include "algorithms/builders/records.h"

#include <algorithm>

#include "algorithms/builders/builders.h"

namespace tutti::builders {
namespace {

using enum Collective;

// Indexed by tuttiAlgorithm_t.
constexpr std::array<Record, tuttiNumAlgorithms> kRecords = {{
    {.name = "none"},
    {.algorithm = tuttiAlgorithmDirect,
     .name = "direct",
     .build = BuildDirect,
     .forms = kEveryScheduled,
     .most_ranks_reducing = kMaxReads,
     .symmetry = Symmetry::rotation,
     .rounding = Rounding::in_rank_order},
    {.algorithm = tuttiAlgorithmTwoShot,
     .name = "two_shot",
     .build = BuildTwoShot,
     .forms = SetOf(all_reduce, reduce),
     .most_ranks_reducing = kMaxReads,
     .symmetry = Symmetry::rotation,
     .rounding = Rounding::in_rank_order},
    {.algorithm = tuttiAlgorithmRing,
     .name = "ring",
     .build = BuildRing,
     .forms = SetOf(all_reduce, reduce_scatter, all_gather, broadcast, reduce),
     .symmetry = Symmetry::rotation,
     .follows_rings = true},
    {.algorithm = tuttiAlgorithmDoubleBinaryTree,
     .name = "double_binary_tree",
     .build = BuildDoubleBinaryTree,
     .forms = SetOf(all_reduce, broadcast, reduce),
     .trees = Trees::of_ranks},
    {.algorithm = tuttiAlgorithmRecursive,
     .name = "recursive",
     .build = BuildRecursive,
     .forms = SetOf(all_reduce, reduce_scatter, all_gather),
     .symmetry = Symmetry::exchange,
     .too_long_to_price = RecursiveIsTooLongToPrice},
    {.algorithm = tuttiAlgorithmBruck,
     .name = "bruck",
     .build = BuildBruck,
     .forms = SetOf(all_gather, all_to_all),
     .symmetry = Symmetry::rotation,
     .passes_blocks_on = SetOf(all_to_all),
     .too_long_to_price = BruckIsTooLongToPrice},
    {.algorithm = tuttiAlgorithmBinomial,
     .name = "binomial",
     .build = BuildBinomial,
     .forms = SetOf(broadcast, reduce, gather, scatter)},
    {.algorithm = tuttiAlgorithmGrouped,
     .name = "grouped",
     .build = BuildGrouped,
     .forms = SetOf(all_reduce),
     .most_ranks = kMaxGroupedRanks,
     .needs = {.posts = true}},
    // A rank that serves several rails gives and takes so much that its own gives could fill the slots before it takes.
    {.algorithm = tuttiAlgorithmTwoLevel,
     .name = "two_level",
     .build = BuildTwoLevel,
     .forms = SetOf(all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, reduce),
     .needs = {.nodes = true},
     .symmetry = Symmetry::rotation,
     // Nodes exchange in turns, each with another partner: no node does the same as its neighbour.
     .nodes_differ = SetOf(all_to_all),
     .passes_blocks_on = SetOf(all_to_all),
     .one_lane_safe = false},
    {.algorithm = tuttiAlgorithmTwoLevelTree,
     .name = "two_level_tree",
     .build = BuildTwoLevelTree,
     .forms = SetOf(all_reduce, broadcast, reduce),
     .needs = {.nodes = true},
     .trees = Trees::of_nodes},
    // The baselines sum in rank order on up to kMaxReads ranks. They are not chosen for that.
    {.algorithm = tuttiAlgorithmParameterServer,
     .name = "parameter_server",
     .build = BuildParameterServer,
     .forms = SetOf(all_reduce, broadcast, reduce),
     .baseline = true},
    {.algorithm = tuttiAlgorithmAllToAllBroadcast,
     .name = "all_to_all_broadcast",
     .build = BuildAllToAllBroadcast,
     .forms = SetOf(all_reduce),
     .baseline = true},
    {.algorithm = tuttiAlgorithmProgram, .name = "program"},
    {.algorithm = tuttiAlgorithmRecursiveDoubling,
     .name = "recursive_doubling",
     .build = BuildRecursiveDoubling,
     .forms = SetOf(all_reduce),
     .symmetry = Symmetry::exchange},
    {.algorithm = tuttiAlgorithmPeerMemory,
     .name = "peer_memory",
     .build = BuildPeerMemory,
     .forms = kEveryScheduled,
     .most_ranks = kMaxReads,  // and MostWrites
     .needs = {.one_launch = true},
     .symmetry = Symmetry::rotation,
     .rounding = Rounding::in_rank_order},
    {.algorithm = tuttiAlgorithmNvls,
     .name = "nvls",
     .build = BuildNvls,
     .forms = SetOf(all_reduce, reduce_scatter, all_gather, broadcast, reduce),
     .needs = {.a_switch = true},
     .across_switches = SetOf(all_reduce, reduce_scatter, all_gather),
     .symmetry = Symmetry::rotation,
     .trees = Trees::of_nodes,
     .rounding = Rounding::once_in_a_node,
     .one_lane_safe = false},
}};

constexpr bool InOrder() {
  for (std::size_t i = 0; i < kRecords.size(); ++i) {
    if (kRecords[i].algorithm != static_cast<tuttiAlgorithm_t>(i)) return false;
  }
  return true;
}
static_assert(InOrder(), "each record stands at its algorithm's number");

}  // namespace

const Record& RecordOf(tuttiAlgorithm_t algorithm) { return kRecords[static_cast<std::size_t>(algorithm)]; }

std::string_view NameOf(tuttiAlgorithm_t algorithm) {
  return algorithm >= 0 && algorithm < tuttiNumAlgorithms ? RecordOf(algorithm).name : "unknown";
}

std::optional<tuttiAlgorithm_t> AlgorithmFromName(std::string_view name) {
  const auto* const found = std::ranges::find(kAllAlgorithms, name, NameOf);
  return found == kAllAlgorithms.end() ? std::nullopt : std::optional(*found);
}

}  // namespace tutti::builders
