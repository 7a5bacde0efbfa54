// Double binary tree: half of the data goes up and down one tree, half another, so that every rank's links are busy
// both ways and the depth is logarithmic. Sanders, Speck and Traeff (2009), see trees.h.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

// Two channels for each one asked for: channel 2i is the first tree, 2i + 1 the second.
// REQUIRES: all_reduce, broadcast or reduce; nranks > 1.
Schedule BuildDoubleBinaryTree(const ScheduleRequest& request);

}  // namespace tutti::builders
