// The end of communication beside computing, and what has gone wrong in it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// compute.join_communication(). Throws Error with the sentence of the group, one of those that have communicated, in
// which something failed: a stream knows only that something has.
void join_communication(Compute& compute, const std::vector<ProcessGroup*>& groups);

}  // namespace tutti::parallel
