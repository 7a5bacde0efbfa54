#include "bench/report/table.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/numbers/datatype.h"
#include "base/report/sizes.h"
#include "bench/driver/launch.h"

namespace tutti::bench {
namespace {

constexpr std::string_view kKeyFormat = "{:>12}  {:>12}  {:>8}  {:>6}  {:>6}";

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// Four significant figures in at most seven characters, as nccl-tests prints times.
std::string Number(double value) {
  if (value >= 10000) return fmt::format("{:.0f}", value);
  if (value >= 1000) return fmt::format("{:.1f}", value);
  if (value >= 1) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

// Shown in place of a number.
std::string WhyNot(const std::optional<Record>& record, const std::string& library) {
  const auto refused = [&](const Result& result) { return result.library == library && result.refused; };
  if (!record || std::none_of(record->results.begin(), record->results.end(), refused)) return "-";
  return "refused";
}

std::string Ratio(double mine, double theirs) { return theirs > 0 ? fmt::format("{:.2f}", mine / theirs) : "-"; }

}  // namespace

Table::Table(const Options& options)
    : options_(options), subject_(options.with_tutti ? kTutti : options.peers.at(0)), others_(options.peers) {
  std::erase(others_, subject_);
}

void Table::PrintHeader() const {
  const MeasurePlan& plan = options_.plan;
  fmt::print("# tutti-bench {}: {} ranks, {} in a process{} on {}\n", options_.name, options_.ranks, options_.threads,
             options_.call.pin ? ", pinned to rank mod cores" : "", HostName());
  fmt::print("# minBytes {} maxBytes {} warmup iters: {} iters: {} agg iters: {} validation: {} repetitions: {}\n",
             options_.sizes.front(), options_.sizes.back(), plan.warmup,
             plan.iterations ? fmt::format("{}", *plan.iterations) : fmt::format("{} ms", plan.budget.count()),
             options_.call.aggregate, plan.check ? 1 : 0, options_.repetitions);
  if (options_.busy > 0) fmt::print("# processes that compute beside the ranks: {}\n", options_.busy);
  fmt::print(
      "# buffers: {}; time, p50 and p99: {} rank's\n",
      options_.call.device       ? options_.call.registered ? "registered, of a device" : "of a device"
      : options_.call.registered ? "registered"
                                 : "malloc",
      std::array{"the first", "the mean", "the fastest", "the slowest"}[static_cast<std::size_t>(plan.over_ranks)]);
  fmt::print("#\n");
  const auto line = [&](const std::string& key, bool units) {
    std::string text = key;
    text.front() = '#';
    if (options_.out_of_place) text += GroupHeader(units);
    if (options_.in_place) text += GroupHeader(units);
    fmt::print("{}{}\n", options_.timestamps ? std::string(10, ' ') : "", text);
  };
  const std::size_t width = GroupHeader(false).size();
  const auto title = [&](const char* name) { return fmt::format("{:^{}}", name, width); };
  fmt::print("#{}{}{}\n", std::string(fmt::format(fmt::runtime(kKeyFormat), "", "", "", "", "").size() - 1, ' '),
             options_.out_of_place ? title("out-of-place") : "", options_.in_place ? title("in-place") : "");
  line(fmt::format(fmt::runtime(kKeyFormat), "size", "count", "type", "redop", "root"), false);
  line(fmt::format(fmt::runtime(kKeyFormat), "(B)", "(elements)", "", "", ""), true);
}

std::string Table::GroupHeader(bool units) const {
  std::string text = units ? fmt::format("  {:>7} {:>6} {:>6} {:>6} {:>7} {:>7} {:>9}", "(us)", "(GB/s)", "(GB/s)", "",
                                         "(us)", "(us)", "")
                           : fmt::format("  {:>7} {:>6} {:>6} {:>6} {:>7} {:>7} {:>9}", "time", "algbw", "busbw",
                                         "#wrong", "p50", "p99", "algorithm");
  for (const std::string& other : others_) {
    text += units ? fmt::format(" {:>11} {:>6}", "(us)", "ratio") : fmt::format(" {:>11} {:>6}", other, "");
    if (options_.busy > 0) text += fmt::format(" {:>7} {:>7}", units ? "(us)" : "mean", units ? "(us)" : "p99");
  }
  return text;
}

std::string Table::Group(const std::optional<Record>& record) const {
  const Result* mine = record ? FindResult(*record, subject_) : nullptr;
  std::string text;
  if (mine != nullptr) {
    text = fmt::format("  {:>7} {:>6} {:>6} {:>6} {:>7} {:>7} {:>9}", Number(mine->mean_us),
                       fmt::format("{:.2f}", AlgorithmBandwidth(*record, mine->mean_us)),
                       fmt::format("{:.2f}", BusBandwidth(*record, mine->mean_us)),
                       mine->checked ? fmt::format("{}", mine->wrong) : "N/A", Number(mine->median_us),
                       Number(mine->p99_us), mine->algorithm.empty() ? "-" : mine->algorithm);
  } else {
    text = fmt::format("  {:>7} {:>6} {:>6} {:>6} {:>7} {:>7} {:>9}", "-", "-", "-", "-", "-", "-", "-");
  }
  for (const std::string& other : others_) {
    const Result* result = record ? FindResult(*record, other) : nullptr;
    text += fmt::format(" {:>11} {:>6}", result != nullptr ? Number(result->median_us) : WhyNot(record, other),
                        result != nullptr && mine != nullptr ? Ratio(mine->median_us, result->median_us) : "-");
    if (options_.busy > 0) {
      text += fmt::format(" {:>7} {:>7}", result != nullptr ? Number(result->mean_us) : "-",
                          result != nullptr ? Number(result->p99_us) : "-");
    }
  }
  return text;
}

void Table::PrintRow(const std::optional<Record>& out, const std::optional<Record>& in) {
  const Record& record = out ? *out : *in;
  const Operation& operation = record.operation;
  if (options_.timestamps) fmt::print("{:%H:%M:%S}  ", fmt::localtime(std::time(nullptr)));
  fmt::print(fmt::runtime(kKeyFormat), record.size, operation.count, NcclTestsName(operation.type),
             Reduces(operation.collective) ? tutti::NameOf(operation.op) : "none",
             HasRoot(operation.collective) ? operation.root : -1);
  if (options_.out_of_place) fmt::print("{}", Group(out));
  if (options_.in_place) fmt::print("{}", Group(in));
  fmt::print("\n");
  std::fflush(stdout);
  if (out) Count(*out);
  if (in) Count(*in);
}

void Table::Count(const Record& record) {
  for (const Result& result : record.results) {
    if (!result.error.empty()) {
      std::fflush(stdout);
      fmt::print(stderr, "tutti-bench: {}\n", result.error);
      lost_ |= result.library == subject_;
    }
    if (result.library != subject_ && result.wrong != 0) {
      fmt::print("# {}: {} wrong values\n", result.library, result.wrong);
    }
  }
  if (const Result* mine = FindResult(record, subject_)) {
    wrong_ += mine->wrong;
    bus_bandwidth_sum_ += BusBandwidth(record, mine->mean_us);
    ++bus_bandwidths_;
  }
}

void Table::PrintFooter() const {
  fmt::print("# Out of bounds values : {} {}\n", wrong_, wrong_ == 0 ? "OK" : "FAILED");
  fmt::print("# Avg bus bandwidth    : {:.4f}\n#\n", bus_bandwidths_ == 0 ? 0.0 : bus_bandwidth_sum_ / bus_bandwidths_);
}

}  // namespace tutti::bench
