#include "bench/report/grid_report.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <set>

#include "base/report/sizes.h"
#include "bench/driver/launch.h"
#include "bench/report/statistics.h"

namespace tutti::bench {
namespace {

using Choice = std::function<bool(const Record&)>;
using Quotient = std::function<std::optional<double>(const Record&)>;

std::string NameOf(const Record& record) {
  const bool both_ways = record.operation.collective == Collective::all_reduce;
  return fmt::format("{}{}", NameOf(record.operation.collective),
                     both_ways && record.operation.in_place ? " in place" : "");
}

std::optional<double> ToBestPeer(const Record& record) {
  const Result* mine = FindResult(record, kTutti);
  const Result* best = BestPeer(record);
  if (mine == nullptr || best == nullptr) return std::nullopt;
  return mine->median_us / best->median_us;
}

std::optional<double> ToBound(const Record& record) {
  const Result* mine = FindResult(record, kTutti);
  if (mine == nullptr || !record.bound_us) return std::nullopt;
  return mine->median_us / *record.bound_us;
}

std::optional<double> BestPeerToBound(const Record& record) {
  const Result* best = BestPeer(record);
  if (best == nullptr || !record.bound_us) return std::nullopt;
  return best->median_us / *record.bound_us;
}

std::string Mean(const std::vector<Record>& records, const Choice& choice, const Quotient& quotient) {
  std::vector<double> values;
  for (const Record& record : records) {
    if (!choice(record)) continue;
    if (const auto value = quotient(record)) values.push_back(*value);
  }
  return values.empty() ? "-" : fmt::format("{:.3f}", GeometricMean(values));
}

std::string Format(const std::optional<double>& value) { return value ? fmt::format("{:.2f}", *value) : "-"; }

std::string Microseconds(const Result* result) {
  return result != nullptr ? fmt::format("{:.3f}", result->median_us) : "-";
}

void AppendCells(const std::vector<Record>& records, std::string& text) {
  text +=
      "| collective | ranks | size | tutti (us) | least - greatest | algorithm | best peer (us) | least - greatest | "
      "peer "
      "| tutti / peer | bound (us) | tutti / bound |\n"
      "|---|--:|--:|--:|--:|---|--:|--:|---|--:|--:|--:|\n";
  const auto spread = [](const Result* result) {
    return result != nullptr ? fmt::format("{:.3f} - {:.3f}", result->least_median_us, result->greatest_median_us)
                             : "-";
  };
  for (const Record& record : records) {
    const Result* mine = FindResult(record, kTutti);
    const Result* best = BestPeer(record);
    fmt::format_to(std::back_inserter(text), "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {}{} | {} | {} |\n",
                   NameOf(record), record.ranks, report::FormatSize(record.bytes), Microseconds(mine), spread(mine),
                   mine != nullptr ? mine->algorithm : "-", Microseconds(best), spread(best),
                   best != nullptr ? best->library : "-", Format(ToBestPeer(record)),
                   IsMissed(record) ? " (missed)" : "", record.bound_us ? fmt::format("{:.3f}", *record.bound_us) : "-",
                   Format(ToBound(record)));
  }
}

void AppendMeans(const std::vector<Record>& records, std::string& text) {
  const Choice all = [](const Record&) { return true; };
  const Choice reductions = [](const Record& record) { return Reduces(record.operation.collective); };
  const Choice no_broadcast = [](const Record& record) { return record.operation.collective != Collective::broadcast; };
  const Choice large = [](const Record& record) {
    constexpr std::size_t kLarge = 1u << 20;
    return record.bytes >= kLarge;
  };
  const auto line = [&](const std::string& what, const Choice& choice) {
    fmt::format_to(std::back_inserter(text), "| {} | {} | {} | {} |\n", what, Mean(records, choice, ToBestPeer),
                   Mean(records, choice, ToBound), Mean(records, choice, BestPeerToBound));
  };
  text +=
      "\n| geometric mean over | tutti / best peer | tutti / bound | best peer / bound |\n"
      "|---|--:|--:|--:|\n";
  line("all cells", all);
  line("all_reduce and reduce_scatter", reductions);
  line("all but broadcast", no_broadcast);
  line("1M and above", large);
  std::set<int> ranks;
  std::set<std::string> names;
  for (const Record& record : records) {
    ranks.insert(record.ranks);
    names.insert(NameOf(record));
  }
  for (const std::string& name : names) {
    line(name, [&](const Record& record) { return NameOf(record) == name; });
  }
  for (const int n : ranks) {
    line(fmt::format("{} ranks", n), [&](const Record& record) { return record.ranks == n; });
    line(fmt::format("{} ranks, all_reduce", n), [&](const Record& record) {
      return record.ranks == n && record.operation.collective == Collective::all_reduce;
    });
  }
}

void AppendSmallest(const std::vector<Record>& records, std::string& text) {
  constexpr std::size_t kSmallest = 8;
  for (const Record& record : records) {
    const Result* mine = FindResult(record, kTutti);
    if (mine == nullptr || record.operation.collective != Collective::all_reduce || record.bytes != kSmallest) continue;
    fmt::format_to(std::back_inserter(text), "- {}, 8 B, {} ranks: {:.3f} us", NameOf(record), record.ranks,
                   mine->median_us);
    if (record.line_round_trip_us) {
      fmt::format_to(std::back_inserter(text), ", {:.2f} cache-line round trips of {:.3f} us",
                     mine->median_us / *record.line_round_trip_us, *record.line_round_trip_us);
    }
    text += "\n";
  }
}

}  // namespace

bool IsMissed(const Record& record) {
  const Result* mine = FindResult(record, kTutti);
  const Result* best = BestPeer(record);
  if (mine == nullptr || best == nullptr) return false;
  const bool slower = mine->median_us > best->median_us && mine->least_median_us > best->greatest_median_us;
  const bool close = record.bound_us && mine->median_us <= kCloseToBound * *record.bound_us;
  return slower && !close;
}

std::string GridMarkdown(const std::vector<Record>& records) {
  std::string text;
  AppendCells(records, text);
  AppendMeans(records, text);
  int missed = 0;
  std::size_t wrong = 0;
  for (const Record& record : records) {
    missed += IsMissed(record) ? 1 : 0;
    for (const Result& result : record.results) wrong += result.wrong;
  }
  fmt::format_to(
      std::back_inserter(text),
      "\n- {} of {} cells slower than the best peer beyond the run's spread and more than {} times the bound\n"
      "- {} wrong values\n",
      missed, records.size(), kCloseToBound, wrong);
  AppendSmallest(records, text);
  return text;
}

}  // namespace tutti::bench
