#include "algorithms/builders/build.h"

#include <array>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/node_lanes.h"
#include "algorithms/builders/trees.h"

namespace tutti::builders {
namespace {

using Builder = Schedule (*)(const ScheduleRequest&);

constexpr unsigned Bit(Collective collective) { return 1u << static_cast<unsigned>(collective); }
template <typename... Collectives>
constexpr unsigned Forms(Collectives... collectives) {
  return (Bit(collectives) | ...);
}

struct Entry {
  Builder build = nullptr;
  unsigned forms = 0;                  // the collectives that it has forms of, by Bit
  Symmetry symmetry = Symmetry::none;  // where there is no root
};

using enum Collective;
constexpr unsigned kEveryForm = (1u << kScheduledCollectives) - 1;

// Indexed by tuttiAlgorithm_t.
constexpr std::array<Entry, tuttiNumAlgorithms> kAlgorithms = {{
    {},
    {BuildDirect, kEveryForm, Symmetry::rotation},
    {BuildTwoShot, Forms(all_reduce, reduce), Symmetry::rotation},
    {BuildRing, Forms(all_reduce, reduce_scatter, all_gather, broadcast, reduce), Symmetry::rotation},
    {BuildDoubleBinaryTree, Forms(all_reduce, broadcast, reduce)},
    {BuildRecursive, Forms(all_reduce, reduce_scatter, all_gather), Symmetry::exchange},
    {BuildBruck, Forms(all_gather, all_to_all), Symmetry::rotation},
    {BuildBinomial, Forms(broadcast, reduce, gather, scatter)},
    {BuildGrouped, Forms(all_reduce)},
    {BuildTwoLevel, Forms(all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, reduce), Symmetry::rotation},
    {BuildTwoLevelTree, Forms(all_reduce, broadcast, reduce)},
    {BuildParameterServer, Forms(all_reduce, broadcast, reduce)},
    {BuildAllToAllBroadcast, Forms(all_reduce)},
    {},  // its schedules come from a file (program.h)
    {BuildRecursiveDoubling, Forms(all_reduce), Symmetry::exchange},
    {BuildPeerMemory, kEveryForm, Symmetry::rotation},
    {BuildNvls, Forms(all_reduce, reduce_scatter, all_gather, broadcast, reduce)},
}};

}  // namespace

std::optional<Schedule> Build(tuttiAlgorithm_t algorithm, const ScheduleRequest& request) {
  if (!Supports(algorithm, request.collective, request.nranks)) return std::nullopt;
  // With one rank, every algorithm is the same copy.
  Schedule schedule = request.nranks == 1 ? BuildDirect(request) : kAlgorithms[algorithm].build(request);
  schedule.algorithm = algorithm;
  // A rank that serves several rails gives and takes so much that its own gives could fill the slots before it takes.
  schedule.one_lane_safe =
      request.nranks == 1 || (algorithm != tuttiAlgorithmTwoLevel && algorithm != tuttiAlgorithmNvls);
  return schedule;
}

bool Supports(tuttiAlgorithm_t algorithm, Collective collective, int nranks) {
  if (algorithm < 0 || algorithm >= tuttiNumAlgorithms || nranks < 1) return false;
  // A rank that reduces all contributions at once is limited to kMaxReads of them.
  const bool at_once = algorithm == tuttiAlgorithmDirect || algorithm == tuttiAlgorithmTwoShot;
  if (at_once && IsReducing(collective) && nranks > kMaxReads) return false;
  // MostWrites, too, is so many.
  if (algorithm == tuttiAlgorithmPeerMemory && nranks > kMaxReads) return false;
  if (algorithm == tuttiAlgorithmGrouped && nranks > kMaxGroupedRanks) return false;
  return (kAlgorithms[algorithm].forms & Bit(collective)) != 0;
}

bool NeedsPosts(tuttiAlgorithm_t algorithm) { return algorithm == tuttiAlgorithmGrouped; }

Symmetry SymmetryOf(tuttiAlgorithm_t algorithm, Collective collective) {
  return HasRoot(collective) ? Symmetry::none : kAlgorithms[algorithm].symmetry;
}

bool FollowsRings(tuttiAlgorithm_t algorithm) { return algorithm == tuttiAlgorithmRing; }

bool PassesBlocksOn(tuttiAlgorithm_t algorithm, Collective collective) {
  return collective == Collective::all_to_all &&
         (algorithm == tuttiAlgorithmBruck || algorithm == tuttiAlgorithmTwoLevel);
}

bool IsBaseline(tuttiAlgorithm_t algorithm) {
  return algorithm == tuttiAlgorithmParameterServer || algorithm == tuttiAlgorithmAllToAllBroadcast;
}

int FabricChannels(tuttiAlgorithm_t algorithm, bool posts) {
  switch (algorithm) {
    case tuttiAlgorithmTwoShot: return posts ? 1 : kTwoShotConnections;
    case tuttiAlgorithmDoubleBinaryTree: return kTrees;
    case tuttiAlgorithmTwoLevel: return kNodeConnections;
    case tuttiAlgorithmTwoLevelTree: return kTrees * kNodeConnections;
    case tuttiAlgorithmNvls: return posts ? 1 : kTrees;
    default: return 1;
  }
}

}  // namespace tutti::builders
