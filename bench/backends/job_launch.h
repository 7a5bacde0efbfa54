// tutti-bench as the ranks of a job: rank 0 is the bench and, in a second thread, a rank; the others are ranks.
#pragma once

#include "bench/backends/job.h"

namespace tutti::bench {

// Returns the exit status. Throws std::runtime_error.
int RunInJob(Job& job, int argc, char** argv);

}  // namespace tutti::bench
