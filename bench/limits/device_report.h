// `tutti-bench device`: what the first GPU is, and how fast it copies by itself: the measure of everything else on it.
#pragma once

#include "bench/driver/options.h"

namespace tutti::bench {

int ReportDevice(const Options& options);

}  // namespace tutti::bench
