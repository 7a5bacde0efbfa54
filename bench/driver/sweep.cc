#include "bench/driver/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/files/files.h"
#include "base/numbers/datatype.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "bench/driver/launch.h"
#include "bench/limits/machine.h"
#include "bench/report/plot.h"
#include "bench/report/table.h"
#include "bench/worker/tcp_probe.h"

namespace tutti::bench {
namespace {

struct Row {
  Operation operation;
  std::size_t bytes;
};

std::vector<Row> RowsOf(const Options& options) {
  const auto collective = *CollectiveNamed(options.name);
  std::vector<tuttiRedOp_t> ops = {tuttiSum};
  if (Reduces(collective)) ops = options.ops;
  std::vector<int> roots = {0};
  if (HasRoot(collective)) roots = {options.root};
  if (HasRoot(collective) && options.root < 0) {
    roots.clear();
    for (int rank = 0; rank < options.ranks; ++rank) roots.push_back(rank);
  }
  std::vector<Row> rows;
  for (const std::size_t bytes : collective == Collective::barrier ? std::vector<std::size_t>{0} : options.sizes) {
    for (const tuttiDataType_t type : options.types) {
      const std::size_t count = CountFor(collective, type, bytes, options.ranks);
      for (const tuttiRedOp_t op : ops) {
        for (const int root : roots) rows.push_back({{collective, type, op, root, count, false}, bytes});
      }
    }
  }
  return rows;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

void PrintInit(const std::vector<std::unique_ptr<Team>>& teams) {
  fmt::print("# init (ms):");
  for (const auto& team : teams) {
    fmt::print(" {} {}", team->library(), team->refusal().empty() ? fmt::format("{:.1f}", team->init_ms()) : "-");
  }
  fmt::print("\n");
  for (const auto& team : teams) {
    if (!team->about().empty()) fmt::print("# {}: {}\n", team->library(), team->about());
    if (!team->refusal().empty()) fmt::print("# refused: {}\n", FirstLine(team->refusal()));
  }
}

void WriteFiles(const Options& options, const std::vector<std::unique_ptr<Team>>& teams,
                const std::vector<TcpLimits>& tcp, const std::vector<Record>& records) {
  if (!options.json_file.empty()) {
    Json json = {{"tutti_bench", 1}, {"machine", DescribeMachine()}, {"results", Json::array()}};
    json["memory"] = options.call.device ? "device" : "host";
    json["graph"] = options.call.graph;
    json["threads"] = options.threads;
    json["cluster"] = ToJson(options.cluster);
    for (const TcpLimits& limits : tcp) json["plain_tcp"].push_back(ToJson(limits));
    for (const auto& team : teams) {
      if (team->refusal().empty()) json["init_ms"][team->library()] = team->init_ms();
      if (!team->about().empty()) json["about"][team->library()] = team->about();
      if (!team->refusal().empty()) json["refused"][team->library()] = team->refusal();
    }
    for (const Record& record : records) json["results"].push_back(ToJson(record));
    WriteFile(options.json_file, json.dump(1) + "\n");
  }
  if (!options.csv_file.empty()) {
    std::string text = CsvHeader();
    for (const Record& record : records) text += ToCsv(record);
    WriteFile(options.csv_file, text);
  }
  if (!options.plot_file.empty()) WriteFile(options.plot_file, PlotSweep(records));
}

// A peer has degenerated if a call takes time slices of the scheduler instead of work: this long, and this many times as
// long as the fastest library. Larger messages, which it cuts into many pieces, would take it hours.
constexpr double kDegenerateUs = 5'000;
constexpr double kDegenerateFactor = 300;

bool AnyAlive(const std::vector<std::unique_ptr<Team>>& teams) {
  for (const auto& team : teams) {
    if (team->alive()) return true;
  }
  return false;
}

}  // namespace

std::vector<std::unique_ptr<Team>> StartTeams(const Options& options, int ranks) {
  std::vector<std::unique_ptr<Team>> teams;
  if (options.with_tutti) {
    teams.push_back(
        std::make_unique<Team>(kTutti, ranks, options.threads, options.cluster, options.call, options.plan.timeout));
  }
  for (const std::string& peer : options.peers) {
    try {
      const int threads = RunsInThreads(peer) ? options.threads : 1;
      teams.push_back(
          std::make_unique<Team>(peer, ranks, threads, options.cluster, options.call, options.plan.timeout));
    } catch (const TeamLost& lost) {
      teams.push_back(Team::Refused(peer, lost.what()));
    }
  }
  return teams;
}

Json ToJson(const ClusterShape& cluster) {
  return {{"hosts", cluster.hosts}, {"nics", cluster.nics}, {"bandwidth", cluster.bandwidth}};
}

std::optional<TcpLimits> ProbeHosts(const Options& options, int ranks,
                                    const std::vector<std::unique_ptr<Team>>& teams) {
  if (options.cluster.hosts == 1 || !teams.front()->alive()) return std::nullopt;
  Team& team = *teams.front();
  const int client = ranks / options.cluster.hosts;
  const Json address = team.Ask({{"do", "tcp listen"}}, options.plan.timeout).front();
  const auto replies =
      team.Ask({{"do", "tcp probe"}, {"server", 0}, {"client", client}, {"address", address}}, options.plan.timeout);
  const TcpLimits limits = TcpLimitsFromJson(replies[static_cast<std::size_t>(client)]);
  fmt::print("# plain TCP from host0 to host1: round trip of 8 B {:.1f} us, stream {:.3f} GB/s\n", limits.round_trip_us,
             limits.stream_gbps);
  return limits;
}

std::vector<std::string> LeaveOutDegenerate(std::vector<std::unique_ptr<Team>>& teams, const Record& record) {
  std::vector<std::string> left_out;
  double best = std::numeric_limits<double>::infinity();
  for (const Result& result : record.results) {
    if (result.measured) best = std::min(best, result.median_us);
  }
  for (const Result& result : record.results) {
    if (result.library == kTutti || !result.measured || result.median_us < kDegenerateUs) continue;
    if (result.median_us < kDegenerateFactor * best) continue;
    const auto why = fmt::format("{}: left out after {} B, where it took {:.0f} us and the fastest {:.1f} us",
                                 result.library, record.bytes, result.median_us, best);
    fmt::print("# {}\n", why);
    const auto team = std::ranges::find(teams, result.library, [](const auto& each) { return each->library(); });
    *team = Team::Refused(result.library, why);
    left_out.push_back(result.library);
  }
  return left_out;
}

int RunSweep(const Options& options, std::vector<std::unique_ptr<Team>> teams) {
  const std::vector<Row> rows = RowsOf(options);
  const bool can_be_in_place = CanBeInPlace(rows.front().operation.collective);
  Options shown = options;
  shown.in_place = options.in_place && can_be_in_place;
  shown.out_of_place = options.out_of_place || !shown.in_place;
  Table table(shown);
  PrintInit(teams);
  // Probed before and after: a change between the two also affected the libraries.
  std::vector<TcpLimits> tcp;
  const auto probe = [&] {
    if (const auto limits = ProbeHosts(options, options.ranks, teams)) tcp.push_back(*limits);
  };
  probe();
  table.PrintHeader();
  std::vector<Record> records;
  for (int cycle = 0; (options.cycles == 0 || cycle < options.cycles) && AnyAlive(teams); ++cycle) {
    report::Progress progress(static_cast<int>(rows.size()));
    for (const Row& row : rows) {
      if (!AnyAlive(teams)) break;
      progress.Step(fmt::format("{} {}", report::FormatSize(row.bytes), NcclTestsName(row.operation.type)));
      const auto measure = [&](bool wanted, bool in_place) -> std::optional<Record> {
        if (!wanted) return std::nullopt;
        Record record = MakeRecord(row.operation, row.bytes, options.ranks);
        record.operation.in_place = in_place;
        record.results = MeasureInterleaved(teams, record.operation, options.plan, options.repetitions);
        records.push_back(record);
        return record;
      };
      const std::optional<Record> out = measure(shown.out_of_place, false);
      const std::optional<Record> in = measure(shown.in_place, true);
      progress.Clear();
      table.PrintRow(out, in);
      LeaveOutDegenerate(teams, records.back());
    }
  }
  table.PrintFooter();
  probe();
  WriteFiles(options, teams, tcp, records);
  return table.all_right() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace tutti::bench
