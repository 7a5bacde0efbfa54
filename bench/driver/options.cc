#include "bench/driver/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/command_line/run.h"
#include "base/command_line/words.h"
#include "base/numbers/datatype.h"
#include "base/report/sizes.h"
#include "base/settings/nearest_name.h"
#include "base/usage_error.h"
#include "bench/driver/launch.h"

namespace tutti::bench {
namespace {

constexpr int kDefaultRanks = 2;
constexpr int kMostRanks = 1024;
constexpr int kMostHosts = 64;
constexpr int kMostBusy = 1024;
constexpr int kInterleaved = 3;  // repetitions when libraries are compared

// The command line's values, before they are interpreted.
struct Raw {
  std::string begin = "32M", end, step = "1M";
  double factor = 1;
  std::string type = "float", op = "sum", place;
  int ranks = 0, threads = 1, threads_per_thread = 1;
  int iterations = 0, over_ranks = 3, check = 1, repetitions = 0;
  int cell_ms = 300, timeout_s = 120;
  bool no_tutti = false, no_pin = false;
  std::string memory = "host";
  int null_stream = 1, blocking = 0, registered = 0, cpu_time = 0, timestamps = 0, parallel_init = 1;
  std::vector<std::string> peers, grid_sizes;
};

// nccl-tests' flags that have no meaning here, and the reasons.
const std::map<std::string, std::string>& Refused() {
  static const std::map<std::string, std::string> kRefused = {
      {"-G,--cudagraph", "use --memory device --graph"},
      {"-x,--cta_policy", "Tutti has no such policies"},
      {"-D,--device_implementation", "Tutti has no device-side API"},
      {"-V,--device_cta_count", "Tutti has no device-side API"},
      {"-M,--memory_report", "tutti-bench does not report device memory"},
      {"-s,--stress_cycles", "use -N to repeat the run"},
  };
  return kRefused;
}

void AddNcclFlags(CLI::App& app, Raw& raw, Options& options) {
  const auto zero_or_one = CLI::IsMember({0, 1});
  app.add_option("-b,--minbytes", raw.begin, "first size: 8, 64K, 1M")->capture_default_str();
  app.add_option("-e,--maxbytes", raw.end, "last size (default: 32M, or -b if that is above)");
  app.add_option("-i,--stepbytes", raw.step, "bytes added from size to size")->capture_default_str();
  app.add_option("-f,--stepfactor", raw.factor, "factor from size to size; above 1 it replaces -i")
      ->capture_default_str();
  app.add_option("-n,--iters", raw.iterations, "calls in a timed loop (default: as many as fit in --cell-ms)")
      ->check(CLI::PositiveNumber);
  app.add_option("-w,--warmup_iters", options.plan.warmup, "calls before a timed loop")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-m,--agg_iters", options.call.aggregate, "calls put into one group")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-N,--run_cycles", options.cycles, "number of times to repeat the whole run; 0: forever")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-c,--check", raw.check, "compare every element of every result")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-o,--op", raw.op, "sum, prod, min, max, avg or all")->capture_default_str();
  app.add_option("-d,--datatype", raw.type, "int8 ... uint64, half, bfloat16, float, double, f8e4m3, f8e5m2 or all")
      ->capture_default_str();
  app.add_option("-r,--root", options.root, "root rank; -1: each in turn")->check(CLI::Range(-1, kMostRanks));
  app.add_option("-z,--blocking", raw.blocking, "with -y 0: wait after each call")->check(zero_or_one);
  app.add_option("-y,--stream_null", raw.null_stream, "1: calls are synchronous; 0: calls go through a host stream")
      ->check(zero_or_one)
      ->capture_default_str();
  app.add_option("-a,--average", raw.over_ranks,
                 "time to report for a call: 0: that of rank 0, 1: the mean, 2: that of the fastest rank, 3: that of "
                 "the slowest rank")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_option("-R,--local_register", raw.registered, "1: tuttiMemAlloc buffers, registered as windows; 0: malloc's")
      ->check(zero_or_one);
  app.add_option("-C,--report_cputime", raw.cpu_time, "1: processor time instead of elapsed time")->check(zero_or_one);
  app.add_option("-S,--report_timestamps", raw.timestamps, "1: begin each row with the time of day")
      ->check(zero_or_one);
  app.add_option("-p,--parallel_init", raw.parallel_init, "accepted; ranks always start in parallel");
  app.add_option("-T,--timeout", raw.timeout_s, "seconds without an answer after which a library is abandoned")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-t,--nthreads", raw.threads, "number of ranks that are threads of one process")
      ->check(CLI::Range(1, kMostRanks))
      ->capture_default_str();
  app.add_option("-g,--ngpus", raw.threads_per_thread, "factor that multiplies -t, as in nccl-tests")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("-J,--output_file,--json", options.json_file, "write the results as JSON");
  for (const auto& entry : Refused()) app.add_option(entry.first)->group("")->expected(0, 1);
}

void RefuseMeaningless(const CLI::App& app) {
  for (const auto& [flag, why] : Refused()) {
    const std::string first_name = flag.substr(0, flag.find(','));
    if (app.count(first_name) != 0) ThrowUsage("{}: {}", flag, why);
  }
}

void AddOwnFlags(CLI::App& app, Raw& raw, Options& options) {
  app.add_option("--ranks", raw.ranks,
                 "total number of ranks (default: 2, or -t); they are processes unless -t is given")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--memory", raw.memory, "location of the buffers: host or device (a GPU, through the CUDA driver)")
      ->check(command_line::OneOf({"host", "device"}))
      ->capture_default_str();
  app.add_flag("--graph", options.call.graph, "with --memory device: each batch is a CUDA graph, captured once");
  app.add_option("--nccl", options.call.nccl, "libnccl that --vs nccl loads")->capture_default_str();
  app.add_option("--vs", raw.peers,
                 "libraries to compare with in the same run: impi,mpich5,openmpi5,openmpi,openmpi-ucx,mpich,gloo,flat "
                 "(the naive program) or all; with --memory device: nccl")
      ->delimiter(',');
  app.add_flag("--no-tutti", raw.no_tutti, "measure only the libraries of --vs");
  app.add_option("--place", raw.place, "out of place, in place or both (default: both, but out with --vs)")
      ->check(command_line::OneOf({"out", "in", "both"}));
  app.add_option("--repeat", raw.repetitions, "number of interleaved repetitions (default: 1; 3 with --vs and grid)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--cell-ms", raw.cell_ms, "time budget of one timed loop in ms")
      ->check(CLI::Range(1, 600'000))
      ->capture_default_str();
  app.add_option("--hosts", options.cluster.hosts, "spread the ranks over the hosts of a cluster on this machine")
      ->check(CLI::Range(1, kMostHosts));
  app.add_option("--bandwidth", options.cluster.bandwidth,
                 "bandwidth of a host's interface, such as 1gbit (default: unlimited)");
  app.add_option("--nics", options.cluster.nics, "number of interfaces of a host (default: 1)");
  app.add_flag("--barriers", options.call.barriers,
               "a barrier precedes each call, and only the call's own time counts (default: calls back to back)");
  app.add_flag("--no-pin", raw.no_pin, "do not pin ranks to cores");
  app.add_option(
         "--busy", options.busy,
         "start this many processes that compute without pause, one on each of the last cores; the table then has "
         "every library's mean and p99")
      ->check(CLI::Range(0, kMostBusy));
  app.add_option("--csv", options.csv_file, "write the results as CSV");
  app.add_option("--plot", options.plot_file, "draw time and bus bandwidth over size (SVG)");
  app.add_option("--markdown", options.markdown_file, "grid: write the table as Markdown");
  app.add_option("--grid-ranks", options.grid_ranks, "grid: numbers of ranks (default: 2,4,8)")->delimiter(',');
  app.add_option("--grid-sizes", raw.grid_sizes, "grid: sizes (default: 8,1K,64K,1M,16M,128M)")->delimiter(',');
  app.add_flag("--resume", options.resume, "grid: keep the cells that the --json file already has");
}

void CheckName(const std::string& name) {
  if (CollectiveNamed(name) || name == "limits" || name == "grid" || name == "device") return;
  std::vector<std::string_view> names;
  for (int i = 0; i < kCollectives; ++i) names.emplace_back(NameOf(static_cast<Collective>(i)));
  names.insert(names.end(), {"limits", "grid", "device"});
  throw UsageError(UnknownName("name", name, names));
}

std::vector<tuttiDataType_t> TypesOf(const std::string& text) {
  std::vector<tuttiDataType_t> types;
  if (text == "all") {
    for (int i = 0; i < tuttiNumTypes; ++i) types.push_back(static_cast<tuttiDataType_t>(i));
  } else if (const auto type = DataTypeNamed(text)) {
    types.push_back(*type);
  } else {
    std::vector<std::string_view> names;
    for (const auto& each : kDataTypes) names.emplace_back(each.nccl_tests_name);
    names.emplace_back("all");
    throw UsageError(UnknownName("data type", text, names));
  }
  return types;
}

std::vector<tuttiRedOp_t> OpsOf(const std::string& text) {
  std::vector<tuttiRedOp_t> ops;
  if (text == "all") {
    for (int i = 0; i < tuttiNumOps; ++i) ops.push_back(static_cast<tuttiRedOp_t>(i));
  } else if (const auto op = OpNamed(text)) {
    ops.push_back(*op);
  } else {
    std::vector<std::string_view> names(kOpNames.begin(), kOpNames.end());
    names.emplace_back("all");
    throw UsageError(UnknownName("operator", text, names));
  }
  return ops;
}

std::vector<std::size_t> SizesOf(const Raw& raw) {
  const std::size_t begin = report::ParseSize(raw.begin);
  const std::size_t end = raw.end.empty() ? std::max(begin, report::ParseSize("32M")) : report::ParseSize(raw.end);
  return report::Sweep(begin, end, raw.factor, report::ParseSize(raw.step));
}

void ResolveRanks(const Raw& raw, int launched_ranks, Options& options) {
  options.threads = raw.threads * raw.threads_per_thread;
  if (options.threads > kMostRanks) ThrowUsage("-t times -g is more than 1024 ranks");
  if (launched_ranks > 0) {
    if (raw.ranks != 0 || options.threads != 1) {
      ThrowUsage("--ranks, -t and -g are not allowed under a launcher, which has already chosen the ranks");
    }
    if (!raw.peers.empty()) ThrowUsage("--vs starts its own ranks: run tutti-bench without a launcher");
    if (options.busy > 0) ThrowUsage("--busy starts its own processes: run tutti-bench without a launcher");
    options.ranks = launched_ranks;
    return;
  }
  options.ranks = raw.ranks != 0 ? raw.ranks : options.threads > 1 ? options.threads : kDefaultRanks;
  if (options.ranks % options.threads != 0) {
    ThrowUsage("--ranks {} is not a multiple of the {} ranks in a process", options.ranks, options.threads);
  }
}

void ResolveCluster(const Options& options) {
  const int hosts = options.cluster.hosts;
  if (hosts == 1) return;
  if (options.threads != 1 || options.call.device) {
    ThrowUsage("--hosts needs ranks that are processes with host memory: remove -t, -g and --memory device");
  }
  if (options.ranks % hosts != 0) {
    ThrowUsage("--ranks {} is not a multiple of {} hosts", options.ranks, hosts);
  }
}

void ResolveMemory(const Raw& raw, int launched_ranks, Options& options) {
  constexpr double kLeastBatchUs = 1000;  // waiting for a stream takes about 10 us
  constexpr int kMostCallsInGraph = 256;
  options.call.device = raw.memory == "device";
  if (options.call.graph && !options.call.device) ThrowUsage("--graph needs --memory device");
  if (options.call.graph && options.call.barriers) ThrowUsage("--graph and --barriers exclude each other");
  if (!options.call.device) return;
  if (launched_ranks > 0) ThrowUsage("--memory device is not supported under a launcher: run tutti-bench without it");
  options.plan.least_batch_us = kLeastBatchUs;
  if (options.call.graph) options.plan.most_calls_in_batch = kMostCallsInGraph;
}

// Checked up front rather than after hours of measuring.
void CheckWritable(const std::string& file) {
  if (file.empty()) return;
  const std::string directory = std::filesystem::absolute(file).parent_path();
  if (::access(directory.c_str(), W_OK) != 0) {
    ThrowUsage("cannot write {}: {}: {}", file, directory, std::strerror(errno));
  }
}

void Resolve(const Raw& raw, int launched_ranks, Options& options) {
  CheckName(options.name);
  if (const auto collective = CollectiveNamed(options.name)) options.name = NameOf(*collective);
  for (const std::string* file : {&options.json_file, &options.csv_file, &options.plot_file, &options.markdown_file}) {
    CheckWritable(*file);
  }
  options.sizes = SizesOf(raw);
  if (options.busy > 0 && !CollectiveNamed(options.name))
    ThrowUsage("--busy goes with one collective: the machine's limits are measured undisturbed");
  options.types = TypesOf(raw.type);
  options.ops = OpsOf(raw.op);
  ResolveRanks(raw, launched_ranks, options);
  ResolveCluster(options);
  ResolveMemory(raw, launched_ranks, options);
  options.peers = ResolvePeers(raw.peers, options.call.device);
  options.with_tutti = !raw.no_tutti;
  if (!options.with_tutti && options.peers.empty() && CollectiveNamed(options.name)) {
    ThrowUsage("--no-tutti leaves nothing to measure; name libraries with --vs");
  }
  if (options.root >= options.ranks) {
    ThrowUsage("-r {}: there are only {} ranks", options.root, options.ranks);
  }
  const std::string place = !raw.place.empty() ? raw.place : options.peers.empty() ? "both" : "out";
  options.out_of_place = place != "in";
  options.in_place = place != "out";
  const bool compares = !options.peers.empty() || options.name == "grid";
  options.repetitions = raw.repetitions != 0 ? raw.repetitions : compares ? kInterleaved : 1;
  options.timestamps = raw.timestamps != 0;

  options.plan.budget = Milliseconds(raw.cell_ms);
  if (raw.iterations != 0) options.plan.iterations = raw.iterations;
  options.plan.check = raw.check != 0;
  options.plan.over_ranks = static_cast<OverRanks>(raw.over_ranks);
  options.plan.timeout = Milliseconds(1000LL * raw.timeout_s);

  options.call.pin = !raw.no_pin;
  options.call.registered = raw.registered != 0;
  options.call.stream = raw.null_stream == 0;
  options.call.blocking = raw.blocking != 0;
  options.call.cpu_time = raw.cpu_time != 0;
  if (options.grid_ranks.empty()) options.grid_ranks = {2, 4, 8};
  for (const std::string& size : raw.grid_sizes) options.grid_sizes.push_back(report::ParseSize(size));
  if (options.resume && options.json_file.empty()) ThrowUsage("--resume needs --json with the file to resume");
}

}  // namespace

namespace {

// The command line, and where it puts what was given.
struct CommandLine {
  CommandLine() {
    command_line::AddVersion(app);
    app.add_option("name", options.name,
                   "all_reduce, reduce_scatter, all_gather, all_to_all, all_to_all_v, broadcast, reduce, gather, "
                   "scatter, send_recv, barrier; limits (of this machine); grid (all collectives, sizes and ranks); "
                   "device (a GPU's data and copy speed)")
        ->required();
    AddNcclFlags(app, raw, options);
    AddOwnFlags(app, raw, options);
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App app{
      "Measures collectives on memory of the host or of GPUs, checks every result, and compares with other libraries.\n"
      "Example: tutti-bench all_reduce -b 8 -e 128M -f 2 --ranks 4 --vs all",
      "tutti-bench"};
  Options options;
  Raw raw;
};

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv, int launched_ranks, int* status) {
  CommandLine line;
  try {
    line.app.parse(argc, argv);
    RefuseMeaningless(line.app);
    Resolve(line.raw, launched_ranks, line.options);
    return line.options;
  } catch (const std::exception& error) {
    *status = command_line::Report(line.app, error);
  }
  return std::nullopt;
}

command_line::OutlinedCommand OutlineOfBench() { return command_line::OutlineOf(CommandLine().app); }

}  // namespace tutti::bench
