// The table on stdout: nccl-tests' columns and footer, then the median, the 99th percentile and the algorithm, and with
// peers each one's time and Tutti's ratio to it (below 1: Tutti is faster). Beside processes that compute, where the mean
// and the worst calls matter as much, also each one's mean and 99th percentile.
//
// Thread-safety: one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/driver/options.h"
#include "bench/report/record.h"

namespace tutti::bench {

class Table {
 public:
  explicit Table(const Options& options);

  void PrintHeader() const;
  // The same cell out of place and in place; absent if not measured.
  void PrintRow(const std::optional<Record>& out, const std::optional<Record>& in);
  void PrintFooter() const;

  bool all_right() const { return wrong_ == 0 && !lost_; }

 private:
  void Count(const Record& record);
  // "algbw of the first library": the library whose columns are shown in full.
  std::string Group(const std::optional<Record>& record) const;
  std::string GroupHeader(bool units) const;

  const Options options_;
  const std::string subject_;
  std::vector<std::string> others_;
  std::size_t wrong_ = 0;
  bool lost_ = false;
  double bus_bandwidth_sum_ = 0;
  int bus_bandwidths_ = 0;
};

}  // namespace tutti::bench
