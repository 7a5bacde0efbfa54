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
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// REQUIRES: all_reduce, reduce_scatter, all_gather, all_to_all (blocks of one length: they pass through third ranks),
// broadcast or reduce; nranks > 1.
Schedule BuildTwoLevel(const ScheduleRequest& request);

// Two channels for each one asked for: channel 2i is the first tree, 2i + 1 the second.
// REQUIRES: all_reduce, broadcast or reduce; nranks > 1.
Schedule BuildTwoLevelTree(const ScheduleRequest& request);

}  // namespace tutti::builders
