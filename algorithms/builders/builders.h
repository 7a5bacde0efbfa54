// The builders, one for each algorithm, as records.h lists them. The source file of each explains its algorithm.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "algorithms/builders/build.h"

namespace tutti::builders {

// direct.cc
Schedule BuildDirect(const ScheduleRequest& request);

// two_shot.cc. REQUIRES: all_reduce or reduce; nranks > 1.
Schedule BuildTwoShot(const ScheduleRequest& request);

// grouped.cc. REQUIRES: all_reduce; 1 < nranks <= kMaxGroupedRanks.
Schedule BuildGrouped(const ScheduleRequest& request);
// The most ranks: a first rank reads a group at once, and every rank reads a partial sum of each group.
inline constexpr int kMaxGroupedRanks = kMaxReads * kMaxReads;

// ring.cc. REQUIRES: all_reduce, reduce_scatter, all_gather, broadcast or reduce; nranks > 1. Channel c visits the
// ranks in the order of the rank layout's ring c, or node by node where it names none, or 0, 1, ..., nranks-1 where
// there is no rank layout.
Schedule BuildRing(const ScheduleRequest& request);

// recursive.cc. REQUIRES: all_reduce, reduce_scatter or all_gather; nranks > 1.
Schedule BuildRecursive(const ScheduleRequest& request);
// Record::too_long_to_price.
std::string_view RecursiveIsTooLongToPrice(Collective collective, int nranks);

// recursive_doubling.cc. REQUIRES: all_reduce; nranks > 1.
Schedule BuildRecursiveDoubling(const ScheduleRequest& request);

// bruck.cc. REQUIRES: all_gather or all_to_all; nranks > 1. All-to-all passes other ranks' blocks on, so all blocks
// must have the same length: it has no v-form.
Schedule BuildBruck(const ScheduleRequest& request);
// Record::too_long_to_price.
std::string_view BruckIsTooLongToPrice(Collective collective, int nranks);

// binomial.cc. REQUIRES: broadcast, reduce, gather or scatter; nranks > 1.
Schedule BuildBinomial(const ScheduleRequest& request);

// double_binary_tree.cc. Two channels for each one asked for: channel 2i is the first tree, 2i + 1 the second.
// REQUIRES: all_reduce, broadcast or reduce; nranks > 1.
Schedule BuildDoubleBinaryTree(const ScheduleRequest& request);

// two_level.cc. REQUIRES: all_reduce, reduce_scatter, all_gather, all_to_all (blocks of one length: they pass through
// third ranks), broadcast or reduce; nranks > 1.
Schedule BuildTwoLevel(const ScheduleRequest& request);
// Two channels for each one asked for, as BuildDoubleBinaryTree. REQUIRES: all_reduce, broadcast or reduce; nranks > 1.
Schedule BuildTwoLevelTree(const ScheduleRequest& request);

// peer_memory.cc. REQUIRES: 1 < nranks <= kMaxReads.
Schedule BuildPeerMemory(const ScheduleRequest& request);

// nvls.cc. With several nodes, an all-reduce has two channels for each one asked for, as BuildDoubleBinaryTree. REQUIRES:
// all_reduce, reduce_scatter or all_gather; or all ranks on one node and broadcast or reduce; nranks > 1.
Schedule BuildNvls(const ScheduleRequest& request);

// baselines.cc. Every rank sends everything to one server, rank 0 or the root, which sums and sends everything back:
// its link carries nranks - 1 times the data each way. Li et al., "Scaling Distributed Machine Learning with the
// Parameter Server" (2014). REQUIRES: all_reduce, broadcast or reduce; nranks > 1.
Schedule BuildParameterServer(const ScheduleRequest& request);
// Every rank sends everything to all others, and sums for itself: nranks * (nranks - 1) times the data. Grama et al.,
// "Introduction to Parallel Computing" (2003), chapter 4, which names the pattern. REQUIRES: all_reduce; nranks > 1.
Schedule BuildAllToAllBroadcast(const ScheduleRequest& request);

}  // namespace tutti::builders
