// Reports a grid's records: a Markdown table of each cell next to the best peer and the bound, the geometric means, and
// the missed cells. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "bench/report/record.h"

namespace tutti::bench {

// A cell is missed when Tutti is slower than the best peer by more than the run's spread - Tutti's best repetition is
// slower than the peer's worst - and farther than this factor from the bound.
inline constexpr double kCloseToBound = 1.25;
bool IsMissed(const Record& record);

std::string GridMarkdown(const std::vector<Record>& records);

}  // namespace tutti::bench
