// `tutti-bench device`: describes the first GPU and measures its own copies, the yardstick for everything else on it.
#pragma once

#include "bench/driver/options.h"

namespace tutti::bench {

int ReportDevice(const Options& options);

}  // namespace tutti::bench
