// `tutti-bench limits`: measures this machine's limits and prints them, with the bounds that follow.
#pragma once

#include "bench/driver/options.h"
#include "bench/limits/limits.h"

namespace tutti::bench {

void PrintLimits(const Limits& limits);
int ReportLimits(const Options& options);

}  // namespace tutti::bench
