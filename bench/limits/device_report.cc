#include "bench/limits/device_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "base/files/files.h"
#include "base/report/sizes.h"
#include "bench/backends/gpu.h"
#include "bench/limits/machine.h"
#include "bench/report/record.h"
#include "bench/report/statistics.h"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsOf(const Gpu& gpu, std::byte* to, const std::byte* from, std::size_t bytes, int copies) {
  const auto start = Clock::now();
  for (int i = 0; i < copies; ++i) gpu.Copy(to, from, bytes);
  gpu.Synchronize();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / copies;
}

// Timed as collectives are: batches, and the median of the repetitions' medians.
Json MeasureCopy(const Gpu& gpu, std::size_t bytes, const Options& options) {
  constexpr int kRepetitions = 3;
  const auto free = [&gpu](std::byte* memory) { gpu.Free(memory); };
  const std::unique_ptr<std::byte, decltype(free)> from(gpu.Allocate(bytes), free), to(gpu.Allocate(bytes), free);
  MicrosecondsOf(gpu, to.get(), from.get(), bytes, std::max(1, options.plan.warmup));
  const double once = std::max(1e-3, MicrosecondsOf(gpu, to.get(), from.get(), bytes, 1));
  const int batch = static_cast<int>(std::ceil(options.plan.least_batch_us / once));
  std::vector<double> medians;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const auto deadline = Clock::now() + options.plan.budget / kRepetitions;
    std::vector<double> us;
    do {
      us.push_back(MicrosecondsOf(gpu, to.get(), from.get(), bytes, batch));
    } while (std::ssize(us) < options.plan.fewest_batches || Clock::now() < deadline);
    medians.push_back(Median(us));
  }
  constexpr double kBytesPerUsOfOneGigabytePerSecond = 1e3;
  const double median = Median(medians);
  return {{"bytes", bytes},
          {"median_us", median},
          {"least_median_us", *std::min_element(medians.begin(), medians.end())},
          {"greatest_median_us", *std::max_element(medians.begin(), medians.end())},
          {"gbs", 2 * static_cast<double>(bytes) / median / kBytesPerUsOfOneGigabytePerSecond}};
}

}  // namespace

int ReportDevice(const Options& options) {
  const Gpu gpu(0);
  const GpuDescription about = gpu.Describe();
  Json json = {{"tutti_bench", 1},
               {"machine", DescribeMachine()},
               {"device",
                {{"name", about.name},
                 {"count", Gpu::Count()},
                 {"cuda_driver", about.driver},
                 {"compute_capability", about.compute_capability},
                 {"multiprocessors", about.multiprocessors},
                 {"clock_mhz", about.clock_mhz},
                 {"memory_clock_mhz", about.memory_clock_mhz},
                 {"memory_bytes", about.memory}}},
               {"copies", Json::array()}};
  fmt::print("# {}, {} multiprocessors, driver for CUDA {}.{}, {} MHz, memory {} MHz, {}\n", about.name,
             about.multiprocessors, about.driver / 1000, about.driver % 1000 / 10, about.clock_mhz,
             about.memory_clock_mhz, report::FormatSize(about.memory));
  fmt::print("# copies inside the device, by the driver (read + written)\n# {:>8} {:>12} {:>9}\n", "size", "time (us)",
             "GB/s");
  for (const std::size_t bytes : options.sizes) {
    const Json copy = MeasureCopy(gpu, bytes, options);
    fmt::print("{:>10} {:>12.2f} {:>9.1f}\n", report::FormatSize(bytes), copy.at("median_us").get<double>(),
               copy.at("gbs").get<double>());
    json["copies"].push_back(copy);
  }
  if (!options.json_file.empty()) WriteFile(options.json_file, json.dump(1) + "\n");
  return EXIT_SUCCESS;
}

}  // namespace tutti::bench
