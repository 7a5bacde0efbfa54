// Order statistics and geometric means of small samples. Pure functions; thread-safe.
#pragma once

#include <vector>

namespace tutti::bench {

// REQUIRES for all: at least one value.
double Mean(const std::vector<double>& values);
double Median(std::vector<double> values);
// Of the middle half: near a median where values scatter about one point, between the points where they scatter about
// two. Of fewer than five values, the median.
double InterquartileMean(std::vector<double> values);
// Nearest rank: the smallest value with at least `percent` % of the values at or below it. 0 < percent <= 100.
double Percentile(std::vector<double> values, double percent);
// REQUIRES: all values > 0.
double GeometricMean(const std::vector<double>& values);

}  // namespace tutti::bench
