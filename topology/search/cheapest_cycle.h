// The cheapest round trip through all points: exact for few points (dynamic programming over subsets, Held and Karp
// 1962), good for many (nearest neighbours from several starts, improved by moving and reversing parts of the trip).
//
// Thread-safety: pure function.
#pragma once

#include <limits>
#include <vector>

namespace tutti::search {

inline constexpr double kNoWay = std::numeric_limits<double>::infinity();

// `cost[from * points + to]`, kNoWay where there is none; may differ by direction. The trip starts at point 0; empty if
// none was found, or there are fewer than 2 points. Deterministic.
std::vector<int> CheapestCycle(const std::vector<double>& cost, int points);

// Approximate number of ways that CheapestCycle looks at, for callers that must bound their time; one takes some 20 ns.
long CheapestCycleEffort(int points);

}  // namespace tutti::search
