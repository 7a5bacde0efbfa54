// Order statistics and geometric means of small samples. Pure functions; thread-safe.
#pragma once

#include <vector>

namespace tutti::bench {

// REQUIRES for all: at least one value.
double Mean(const std::vector<double>& values);
double Median(std::vector<double> values);
// The mean of the middle half: close to a median if values scatter around one point, between the points if they scatter
// around two. For fewer than five values, the median.
double InterquartileMean(std::vector<double> values);
// Nearest rank: the smallest value with at least `percent` % of the values at or below it. 0 < percent <= 100.
double Percentile(std::vector<double> values, double percent);
// REQUIRES: all values > 0.
double GeometricMean(const std::vector<double>& values);

}  // namespace tutti::bench
