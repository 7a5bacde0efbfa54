#include "bench/report/plot.h"

#include <fmt/format.h>

#include "base/numbers/datatype.h"
#include "base/report/chart.h"

namespace tutti::bench {
namespace {

bool SameKind(const Record& a, const Record& b) {
  return a.operation.type == b.operation.type && a.operation.op == b.operation.op &&
         a.operation.root == b.operation.root && a.operation.in_place == b.operation.in_place;
}

}  // namespace

std::string PlotSweep(const std::vector<Record>& records) {
  report::Panel time{"time (us, median)"};
  report::Panel bandwidth{"bus bandwidth (GB/s)"};
  std::string heading = "tutti-bench";
  if (!records.empty()) {
    const Record& first = records.front();
    heading = fmt::format(
        "{}, {} ranks, {}{}, {}", NameOf(first.operation.collective), first.ranks, NcclTestsName(first.operation.type),
        Reduces(first.operation.collective) ? fmt::format(" {}", tutti::NameOf(first.operation.op)) : "",
        first.operation.in_place ? "in place" : "out of place");
    for (const Result& result : first.results) {
      report::Curve times{result.library, {}};
      report::Curve bandwidths{result.library, {}};
      for (const Record& record : records) {
        const Result* measured = FindResult(record, result.library);
        if (measured == nullptr || !SameKind(record, first) || record.size == 0) continue;
        const auto size = static_cast<double>(record.size);
        times.points.emplace_back(size, measured->median_us);
        bandwidths.points.emplace_back(size, BusBandwidth(record, measured->median_us));
      }
      time.curves.push_back(std::move(times));
      bandwidth.curves.push_back(std::move(bandwidths));
    }
  }
  return report::Draw({heading, {time, bandwidth}});
}

}  // namespace tutti::bench
