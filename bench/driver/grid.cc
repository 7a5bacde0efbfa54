#include "bench/driver/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>

#include "base/files/files.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "base/usage_error.h"
#include "bench/driver/launch.h"
#include "bench/driver/sweep.h"
#include "bench/limits/bound.h"
#include "bench/limits/limits_report.h"
#include "bench/limits/machine.h"
#include "bench/report/grid_report.h"

namespace tutti::bench {
namespace {

struct Contents {
  std::map<int, Limits> limits;  // measured again for each number of ranks
  std::vector<Record> records;
};

Contents Load(const Options& options) {
  Contents contents;
  if (!options.resume || !std::filesystem::exists(options.json_file)) return contents;
  constexpr std::size_t kMaxGrid = std::size_t{256} << 20;  // a large grid's cells take a few megabytes
  const Json json = Json::parse(ReadFile(options.json_file, kMaxGrid));
  if (json.value("cluster", ToJson(ClusterShape{})) != ToJson(options.cluster)) {
    ThrowUsage("{} is of another cluster: see --hosts, --nics and --bandwidth", options.json_file);
  }
  for (const auto& [ranks, limits] : json.at("limits").items()) {
    contents.limits[std::stoi(ranks)] = LimitsFromJson(limits);
  }
  for (const Json& record : json.at("results")) contents.records.push_back(RecordFromJson(record));
  return contents;
}

void Save(const Options& options, const Contents& contents) {
  if (!options.json_file.empty()) {
    Json json = {{"tutti_bench", 1},
                 {"machine", DescribeMachine()},
                 {"registered", options.call.registered},
                 {"cluster", ToJson(options.cluster)},
                 {"limits", Json::object()},
                 {"results", Json::array()}};
    for (const auto& [ranks, limits] : contents.limits) json["limits"][std::to_string(ranks)] = ToJson(limits);
    for (const Record& record : contents.records) json["results"].push_back(ToJson(record));
    WriteFile(options.json_file, json.dump(1) + "\n");
  }
  if (!options.csv_file.empty()) {
    std::string text = CsvHeader();
    for (const Record& record : contents.records) text += ToCsv(record);
    WriteFile(options.csv_file, text);
  }
}

bool IsDone(const GridCell& cell, const Contents& contents) {
  return std::any_of(contents.records.begin(), contents.records.end(), [&](const Record& record) {
    return record.operation.collective == cell.operation.collective &&
           record.operation.in_place == cell.operation.in_place && record.ranks == cell.ranks &&
           record.bytes == cell.bytes;
  });
}

// A library lost in one cell gets further chances in later ones, but not indefinitely: each loss may cost a timeout.
class Chances {
 public:
  bool Take(const std::string& library, int ranks) { return ++taken_[{library, ranks}] <= kMost; }

 private:
  static constexpr int kMost = 3;
  std::map<std::pair<std::string, int>, int> taken_;
};

void Restart(std::unique_ptr<Team>& team, const Options& options, int ranks) {
  try {
    team = std::make_unique<Team>(team->library(), ranks, 1, options.cluster, options.call, options.plan.timeout);
  } catch (const TeamLost& lost) {
    fmt::print(stderr, "tutti-bench: not restarted: {}\n", lost.what());
  }
}

// The teams for a cell. A peer that was too slow for a size of this collective is so for larger ones, too, but may be fast at
// the next collective's small ones.
void Revive(std::vector<std::unique_ptr<Team>>& teams, const Options& options, int ranks, bool next_collective,
            std::vector<std::string>& left_out, Chances& chances) {
  for (auto& team : teams) {
    if (team->alive()) continue;
    const bool slow = std::ranges::count(left_out, team->library()) != 0;
    if (slow ? next_collective : chances.Take(team->library(), ranks)) Restart(team, options, ranks);
  }
  if (next_collective) left_out.clear();
}

void PrintRecord(const GridCell& cell, const Record& record) {
  fmt::print("{:>14} {:>5} {:>6}", cell.Name(), cell.ranks, report::FormatSize(cell.bytes));
  for (const Result& result : record.results) {
    fmt::print("  {} {}", result.library, result.measured ? fmt::format("{:.3f}", result.median_us) : "-");
    if (result.wrong != 0) fmt::print(" ({} WRONG)", result.wrong);
  }
  fmt::print("  bound {:.3f}\n", *record.bound_us);
  std::fflush(stdout);
  for (const Result& result : record.results) {
    if (!result.error.empty()) fmt::print(stderr, "tutti-bench: {}\n", result.error);
  }
}

void PrintTimeBudget(const std::vector<GridCell>& cells, const Options& options) {
  // Besides the loop: allocating, filling, at least half a dozen calls, and comparing. Rough figures for a machine with
  // two cores.
  constexpr double kSecondsPerByte = 8e-9;
  constexpr double kSecondsPerLoop = 0.1;
  double seconds = 0;
  for (const GridCell& cell : cells) {
    const double bytes = static_cast<double>(cell.bytes) * cell.ranks;
    seconds += static_cast<double>(options.plan.budget.count()) / 1000 + kSecondsPerLoop + kSecondsPerByte * bytes;
  }
  const std::size_t libraries = options.peers.size() + (options.with_tutti ? 1 : 0);
  fmt::print("# {} cells, {} libraries, {} repetitions of {} ms: about {}\n", cells.size(), libraries,
             options.repetitions, options.plan.budget.count(),
             report::FormatDuration(seconds * static_cast<double>(libraries) * options.repetitions));
  std::fflush(stdout);
}

Options WithGridDefaults(Options options) {
  if (options.peers.empty() && !options.call.registered) options.peers = ResolvePeers({"all"}, options.call.device);
  constexpr double kHopeless = 30;
  options.plan.hopeless_factor = kHopeless;
  options.threads = 1;
  return options;
}

}  // namespace

std::string GridCell::Name() const {
  const bool both_ways = operation.collective == Collective::all_reduce;
  return fmt::format("{}{}", NameOf(operation.collective), both_ways && operation.in_place ? "_ip" : "");
}

std::vector<std::size_t> GridSizes(const Options& options) {
  if (!options.grid_sizes.empty()) return options.grid_sizes;
  return {8, 1u << 10, 64u << 10, 1u << 20, 16u << 20, 128u << 20};
}

std::vector<GridCell> GridCells(const Options& options) {
  struct Way {
    Collective collective;
    bool in_place;
  };
  constexpr Way kWays[] = {{Collective::all_reduce, false},     {Collective::all_reduce, true},
                           {Collective::reduce_scatter, false}, {Collective::all_gather, false},
                           {Collective::all_to_all, false},     {Collective::broadcast, true}};
  std::vector<GridCell> cells;
  for (const int ranks : options.grid_ranks) {
    for (const Way& way : kWays) {
      for (const std::size_t bytes : GridSizes(options)) {
        const std::size_t count = CountFor(way.collective, tuttiFloat32, bytes, ranks);
        cells.push_back({{way.collective, tuttiFloat32, tuttiSum, 0, count, way.in_place}, bytes, ranks});
      }
    }
  }
  return cells;
}

int RunGrid(const Options& given) {
  const Options options = WithGridDefaults(given);
  Contents contents = Load(options);
  std::vector<GridCell> left;
  for (const GridCell& cell : GridCells(options)) {
    if (!IsDone(cell, contents)) left.push_back(cell);
  }
  PrintTimeBudget(left, options);
  report::Progress progress(static_cast<int>(left.size()));
  std::vector<std::unique_ptr<Team>> teams;
  Chances chances;
  int started = 0;
  std::string measured;               // the name of the cell before
  std::vector<std::string> left_out;  // peers, in this collective's other cells
  double link = 0;                    // of a host, in GB/s each way; 0: unlimited
  for (const GridCell& cell : left) {
    progress.Step(fmt::format("{} {} {} ranks", cell.Name(), report::FormatSize(cell.bytes), cell.ranks));
    if (started != cell.ranks) {
      teams.clear();  // first, so that no rank of the previous number is left
      contents.limits[cell.ranks] = MeasureLimits([](const std::string&) {});
      progress.Clear();
      PrintLimits(contents.limits[cell.ranks]);
      teams = StartTeams(options, cell.ranks);
      started = cell.ranks;
      link = 0;
      if (!options.cluster.bandwidth.empty() && !teams.empty()) {
        if (const auto tcp = ProbeHosts(options, cell.ranks, teams)) link = options.cluster.nics * tcp->stream_gbps;
      }
    }
    Revive(teams, options, cell.ranks, cell.Name() != measured, left_out, chances);
    measured = cell.Name();
    Record record = MakeRecord(cell.operation, cell.bytes, cell.ranks);
    Limits& limits = contents.limits[cell.ranks];
    RefreshCoreDistance(limits);
    record.bound_us = BoundUs(cell.operation, cell.ranks, limits);
    if (link > 0) {
      record.bound_us =
          std::max(*record.bound_us, LinkBoundUs(cell.operation, cell.ranks, options.cluster.hosts, link));
    }
    if (cell.ranks <= limits.cores && limits.cores > 1) record.line_round_trip_us = limits.line_round_trip_us;
    record.results = MeasureInterleaved(teams, cell.operation, options.plan, options.repetitions);
    contents.records.push_back(record);
    progress.Clear();
    PrintRecord(cell, record);
    std::ranges::copy(LeaveOutDegenerate(teams, record), std::back_inserter(left_out));
    Save(options, contents);
  }
  teams.clear();
  const std::string report = GridMarkdown(contents.records);
  fmt::print("\n{}", report);
  if (!options.markdown_file.empty()) WriteFile(options.markdown_file, report);
  const bool right = std::all_of(contents.records.begin(), contents.records.end(), [](const Record& record) {
    return std::all_of(record.results.begin(), record.results.end(), [](const Result& result) {
      return result.library != kTutti || (result.measured && result.wrong == 0);
    });
  });
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace tutti::bench
