// Time and bus bandwidth over size as one self-contained SVG: logarithmic axes, one line per library.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "bench/report/record.h"

namespace tutti::bench {

// Of the records, those of the first type, operator, root and place that occur. With fewer than one measured point the
// picture has axes only.
std::string PlotSweep(const std::vector<Record>& records);

}  // namespace tutti::bench
