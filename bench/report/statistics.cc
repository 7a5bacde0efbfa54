#include "bench/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace tutti::bench {

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double InterquartileMean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t quarter = (values.size() + 3) / 4;
  const auto cut = static_cast<std::ptrdiff_t>(std::min(quarter, (values.size() - 1) / 2));
  return Mean({values.begin() + cut, values.end() - cut});
}

double Percentile(std::vector<double> values, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
  const auto index = static_cast<std::size_t>(std::clamp(rank, 1.0, static_cast<double>(values.size()))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

double GeometricMean(const std::vector<double>& values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace tutti::bench
