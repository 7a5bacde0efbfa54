// What a grid's records say: a table in Markdown with each cell beside the best peer and the bound, the geometric
// means, and the cells that miss. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "bench/report/record.h"

namespace tutti::bench {

// A cell is missed when Tutti is slower than the best peer by more than the run's spread - its best repetition is
// slower than the peer's worst - and further than this from the bound.
inline constexpr double kCloseToBound = 1.25;
bool IsMissed(const Record& record);

std::string GridMarkdown(const std::vector<Record>& records);

}  // namespace tutti::bench
