// tutti calibrate: measures this machine's constants and, for some numbers of ranks, which plan is really the fastest;
// saves both to a file that later runs load.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/files/files.h"
#include "base/numbers/datatype.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "bench/limits/limits.h"
#include "bench/report/statistics.h"
#include "executors/host/helper_threads.h"
#include "executors/host/kernels/copy.h"
#include "executors/host/kernels/reduce.h"
#include "selection/cost_model/host_machine.h"
#include "selection/tuner/calibration.h"
#include "selection/tuner/tuner.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/tuning/candidate_timer.h"
#include "transports/shm/cma.h"
#include "transports/shm/process_register.h"

namespace tutti::tools {
namespace {

struct CalibrateOptions {
  std::vector<int> ranks = {2, 4, 8};
  std::string output;
  int repetitions = 10;
  double loop_ms = 20;  // several scheduler ticks
  bool json = false;
};

constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();
// The sizes at which crossovers are measured; a plan applies up to the midpoint between two (on a logarithmic scale).
constexpr std::size_t kSmallest = 8;
constexpr std::size_t kLargest = std::size_t{16} << 20;
constexpr double kSizeFactor = 4;
// A plan slower than the fastest by up to this factor may be the fastest another time.
constexpr double kNoise = 1.15;

cost_model::Rate ToRate(const bench::BandwidthCurve& curve, double footprints_per_buffer) {
  cost_model::Rate rate;
  for (const auto& [working_set, gbs] : curve.points()) {
    rate.push_back({static_cast<std::size_t>(working_set * footprints_per_buffer), gbs});
  }
  rate.back().footprint = kAnySize;
  return rate;
}

// The constants that follow from the machine's limits without running a collective; the others keep their defaults.
cost_model::HostCosts FromLimits(const bench::Limits& limits) {
  cost_model::HostCosts host = cost_model::DefaultHostCosts(limits.cores);
  const auto& one = limits.With(1);
  host.costs.executor_bandwidth = ToRate(one.copy, 1);
  host.costs.streamed_bandwidth = one.copy_nontemporal.points().back().gbs;
  if (!limits.crossing.points().empty()) host.costs.crossing_bandwidth = ToRate(limits.crossing, 1);
  host.costs.yield_us = limits.yield_round_trip_us / 2;
  if (limits.line_round_trip_us > 0) {
    // A longer protocol's latency is in proportion to the lines that must arrive before the data can be read.
    const cost_model::HostCosts defaults = cost_model::DefaultHostCosts(limits.cores);
    for (int protocol = 0; protocol < ring::kProtocols; ++protocol) {
      host.latency[protocol] = limits.line_round_trip_us / 2 * defaults.latency[protocol] / defaults.latency[0];
    }
  }
  return host;
}

using Clock = std::chrono::steady_clock;

// Of one call, in microseconds.
template <typename Call>
double MicrosecondsOf(int calls, Call&& call) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
}

// The least of some rounds.
template <typename Call>
double LeastMicrosecondsOf(Call&& call) {
  constexpr int kCalls = 200;
  constexpr int kRounds = 15;
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; ++round) least = std::min(least, MicrosecondsOf(kCalls, call));
  return least;
}

// What a sum in bfloat16 costs beside moving its operands: how much longer it takes than one of as many bytes of float32.
void MeasureLowPrecision(cost_model::Costs& costs) {
  constexpr std::size_t kBytes = std::size_t{64} << 10;  // in a core's own cache
  constexpr int kSources = 2;
  const std::vector<std::byte> one(kBytes), other(kBytes);
  std::vector<std::byte> sum(kBytes);
  const std::array<const void*, kSources> sources{one.data(), other.data()};
  void* const destination = sum.data();
  const auto time = [&](tuttiDataType_t type) {
    const auto reduce = host_kernels::SelectReduce(type, tuttiSum);
    host_kernels::ReduceCall call;
    call.sources = sources.data();
    call.source_count = kSources;
    call.destinations = &destination;
    call.destination_count = 1;
    call.count = kBytes / SizeOf(type);
    return LeastMicrosecondsOf([&] { reduce(call); });
  };
  const double more = time(tuttiBfloat16) - time(tuttiFloat);
  constexpr double kBytesPerUsOfOneGb = 1e3;
  costs.low_precision_bandwidth = more > 0 ? kSources * kBytes / more / kBytesPerUsOfOneGb : 0;
}

// How long a rank's helper threads take to begin and end, when they have slept between two calls of a program.
void MeasureHelpers(cost_model::Costs& costs) {
  if (costs.cores < 2) return;
  constexpr auto kBetweenCalls = std::chrono::milliseconds(1);
  constexpr int kCalls = 101;
  host::HelperThreads threads(1);
  std::vector<double> us;
  for (int i = 0; i < kCalls; ++i) {
    for (const auto end = Clock::now() + kBetweenCalls; Clock::now() < end;) {
    }
    us.push_back(MicrosecondsOf(1, [&] { threads.Work([](int) {}); }));
  }
  costs.helpers_us = bench::Percentile(std::move(us), 50);
}

// What it costs to read another process's memory, from this process's reading its own: the kernel does the same. Where
// it refuses, the defaults stay.
void MeasureFetches(cost_model::Costs& costs) {
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kPages = 64;  // they stay in a core's cache, so that looking pages up is what shows
  const std::vector<std::byte> from(kPages * kPage, std::byte{1});
  std::vector<std::byte> to(from.size());
  const FileDescriptor self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  bool read = true;
  const auto fetch = [&](std::size_t bytes) {
    return LeastMicrosecondsOf([&] {
      read = read && shm::ReadProcess(getpid(), reinterpret_cast<std::uint64_t>(from.data()), to.data(), bytes);
      read = read && !shm::HasEnded(self.get());  // as for every piece of a peer's memory
    });
  };
  const double one = fetch(ring::kCacheLine);
  const double all = fetch(from.size());
  const double copy = LeastMicrosecondsOf([&] { host_kernels::CopyBytes(to.data(), from.data(), from.size(), false); });
  if (!read) return;
  costs.fetch_us = one;
  costs.fetch_page_us = std::max(0.0, all - one - copy) / kPages;
}

// The measured winner of each size, unless the previous size's winner or the predicted one is as good: the smallest of
// many timings was also the luckiest.
std::vector<tuner::TableEntry> WinnersOf(const std::vector<const TimedCell*>& cells, tuner::Tuner& tuner) {
  std::vector<tuner::TableEntry> row;
  for (const TimedCell* cell : cells) {
    const auto best = static_cast<std::size_t>(std::min_element(cell->us.begin(), cell->us.end()) - cell->us.begin());
    const auto as_good = [&](const cost_model::Candidate& candidate) -> std::optional<std::size_t> {
      const auto found = std::find(cell->candidates.begin(), cell->candidates.end(), candidate);
      const auto index = static_cast<std::size_t>(found - cell->candidates.begin());
      if (found == cell->candidates.end() || cell->us[index] > kNoise * cell->us[best]) return std::nullopt;
      return index;
    };
    if (!row.empty() && as_good(row.back().candidate)) continue;
    const std::size_t winner = as_good(tuner.Compare(cell->kind, cell->bytes).front().candidate).value_or(best);
    // Half-way from the previous size: the geometric mean.
    const double from = row.empty() ? 0 : static_cast<double>(cell->bytes) / std::sqrt(kSizeFactor) + 1;
    row.push_back({static_cast<std::size_t>(from), cell->candidates[winner], cell->us[winner]});
  }
  return row;
}

std::string MeasuredTable(int nranks, const cost_model::HostCosts& costs, const CalibrateOptions& options) {
  const cost_model::TuningContext tuning = HostConditions(nranks);
  const cost_model::Machine machine = cost_model::HostMachine(costs, schedule::ArrangeEvenly(nranks, 1));
  tuner::Tuner tuner(machine, tuning);
  auto cells = EveryCandidate(tuning, report::Sweep(kSmallest, kLargest, kSizeFactor, 0));
  TimeCandidates(cells, {.nranks = nranks, .repetitions = options.repetitions, .loop_ms = options.loop_ms});
  tuner::SelectionTable table;
  for (const auto& kind : cost_model::AllKinds()) {
    std::vector<const TimedCell*> of_kind;
    for (const auto& cell : cells) {
      if (cell.kind == kind) of_kind.push_back(&cell);
    }
    if (of_kind.empty()) continue;
    // Blocks of small buffers are rounded up to an element, so several cells may have the same size.
    of_kind.erase(std::unique(of_kind.begin(), of_kind.end(), [](auto* a, auto* b) { return a->bytes == b->bytes; }),
                  of_kind.end());
    table.Set(kind, WinnersOf(of_kind, tuner));
  }
  return table.ToJson(tuning);
}

void Calibrate(const CalibrateOptions& options) {
  const std::string path = options.output.empty() ? tuner::DefaultCalibrationPath() : options.output;
  if (path.empty()) Throw(tuttiInvalidArgument, "neither XDG_CACHE_HOME nor HOME is set; give the file with --output");
  tuner::Calibration calibration;
  {
    report::Progress progress;
    calibration.costs =
        FromLimits(bench::MeasureLimits([&](const std::string& what) { progress.Step("measuring " + what); }));
  }
  MeasureFetches(calibration.costs.costs);
  MeasureLowPrecision(calibration.costs.costs);
  MeasureHelpers(calibration.costs.costs);
  for (const int nranks : options.ranks)
    calibration.tables.push_back(MeasuredTable(nranks, calibration.costs, options));
  const auto directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) std::filesystem::create_directories(directory);
  const std::string text = tuner::ToJson(calibration);
  WriteFile(path, text);
  if (options.json) {
    PrintJson({{"file", path}, {"calibration", nlohmann::ordered_json::parse(text)}});
  } else {
    fmt::print("{}\n", path);
  }
}

}  // namespace

void AddCalibrate(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "calibrate", "measure this machine for the selector, and save the result where later runs find it");
  const auto options = std::make_shared<CalibrateOptions>();
  command->add_option("--ranks", options->ranks, "numbers of ranks for which to time all candidates")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--output", options->output, "file to write; default: ~/.cache/tutti/HOST.json");
  command
      ->add_option("--repetitions", options->repetitions,
                   "number of interleaved repetitions; their interquartile mean is used")
      ->capture_default_str();
  command->add_option("--loop-ms", options->loop_ms, "length of one timed loop")->capture_default_str();
  AddJsonFlag(*command, options->json);
  command->callback([options] { Calibrate(*options); });
}

}  // namespace tutti::tools
