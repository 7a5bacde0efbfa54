#include "bench/limits/limits_report.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "bench/driver/grid.h"
#include "bench/limits/bound.h"
#include "bench/limits/machine.h"
#include "bench/report/record.h"

namespace tutti::bench {

void PrintLimits(const Limits& limits) {
  fmt::print("# {} cores\n", limits.cores);
  if (limits.cores > 1) fmt::print("# cache line, between two cores and back : {:.3f} us\n", limits.line_round_trip_us);
  fmt::print("# sched_yield, on one core and back      : {:.3f} us\n", limits.yield_round_trip_us);
  fmt::print("# a core's own cache                     : {}\n#\n",
             report::FormatSize(static_cast<std::size_t>(limits.private_cache_bytes)));
  if (!limits.crossing.points().empty()) {
    fmt::print("# a core copies what another has just written, both ways at once (GB/s, bytes copied)\n");
    for (const auto& point : limits.crossing.points()) {
      fmt::print("  {:>9}  {:>7.1f}\n", report::FormatSize(static_cast<std::size_t>(point.working_set)), point.gbs);
    }
  }
  fmt::print("#\n# streaming (GB/s, read + written); nt: non-temporal stores\n");
  for (const CoreBandwidth& entry : limits.bandwidth) {
    fmt::print("# {} core{}\n#   buffer     d=a  d=a nt   d=a+b  d=a+b nt\n", entry.cores, entry.cores == 1 ? "" : "s");
    for (std::size_t i = 0; i < entry.copy.points().size(); ++i) {
      const auto& point = entry.copy.points()[i];
      fmt::print("  {:>8} {:>7.1f} {:>7.1f} {:>7.1f} {:>9.1f}\n",
                 report::FormatSize(static_cast<std::size_t>(point.working_set / 2)), point.gbs,
                 entry.copy_nontemporal.points()[i].gbs, entry.add.points()[i].gbs,
                 entry.add_nontemporal.points()[i].gbs);
    }
  }
}

int ReportLimits(const Options& options) {
  constexpr int kSteps = 3;  // of a machine with two cores
  report::Progress progress(kSteps);
  const Limits limits = MeasureLimits([&](const std::string& what) { progress.Step(what); });
  progress.Clear();
  PrintLimits(limits);
  fmt::print("#\n# bounds that follow (us)\n# {:>14} {:>5}", "collective", "ranks");
  const std::vector<GridCell> cells = GridCells(options);
  std::string previous;
  for (const GridCell& cell : cells) {
    const std::string row = fmt::format("{:>14} {:>5}", cell.Name(), cell.ranks);
    if (previous.empty()) {
      for (const std::size_t bytes : GridSizes(options)) fmt::print(" {:>9}", report::FormatSize(bytes));
    }
    if (row != previous) fmt::print("\n  {}", row);
    fmt::print(" {:>9.3f}", BoundUs(cell.operation, cell.ranks, limits));
    previous = row;
  }
  fmt::print("\n");
  if (!options.json_file.empty()) {
    const Json json = {{"tutti_bench", 1}, {"machine", DescribeMachine()}, {"limits", ToJson(limits)}};
    WriteFile(options.json_file, json.dump(1) + "\n");
  }
  return EXIT_SUCCESS;
}

}  // namespace tutti::bench
