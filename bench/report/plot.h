// Time and bus bandwidth over size as one self-contained SVG: logarithmic axes, one line per library.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "bench/report/record.h"

namespace tutti::bench {

// Plots the records that share the first record's type, operator, root and place. Without measured points the picture
// has only axes.
std::string PlotSweep(const std::vector<Record>& records);

}  // namespace tutti::bench
