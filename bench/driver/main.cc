// tutti-bench: measures collectives on memory of the host or of GPUs, checks every result, and compares with other
// libraries.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/plain_text.h"
#include "bench/backends/job_launch.h"
#include "bench/driver/busy_cores.h"
#include "bench/driver/grid.h"
#include "bench/driver/options.h"
#include "bench/driver/sweep.h"
#include "bench/limits/device_report.h"
#include "bench/limits/limits_report.h"
#include "bench/worker/worker.h"

namespace tutti::bench {
namespace {

int Run(int argc, char** argv) {
  if (const auto orders = TakeOrders()) return WorkerMain(*orders, MakeLibrary);
  if (const auto job = JobOfEnvironment()) return RunInJob(*job, argc, argv);
  int status = EXIT_SUCCESS;
  const std::optional<Options> options = ParseOptions(argc, argv, 0, &status);
  if (!options) return status;
  const std::vector<Process> busy = KeepLastCoresBusy(options->busy);
  if (options->name == "limits") return ReportLimits(*options);
  if (options->name == "grid") return RunGrid(*options);
  if (options->name == "device") return ReportDevice(*options);
  return RunSweep(*options, StartTeams(*options, options->ranks));
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  try {
    return tutti::bench::Run(argc, argv);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "tutti-bench: {}\n", tutti::Printable(error.what()));
    return EXIT_FAILURE;
  }
}
