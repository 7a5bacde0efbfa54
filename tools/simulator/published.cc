#include "tools/simulator/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "selection/cost_model/candidates.h"
#include "selection/cost_model/machine_of_system.h"
#include "tools/simulator/simulated.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

// A line of testdata/systems.csv: a system that has been measured, its description, and the number of channels that the
// measured library finally uses there, as far as it is known; 0: several are tried.
struct Described {
  std::string name;
  std::string topology;
  int channels;
  int nvls_channels;
};

// Comma-separated; fields may be quoted. No field contains a quote or a newline.
std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

template <typename T>
T Number(const std::string& text, const std::string& where) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    Throw(tuttiInvalidArgument, "{}: \"{}\" is not a number", where, text);
  }
  return value;
}

// Calls line(fields, "file:number") for every line but the first, which names the columns.
template <typename Line>
void EachLine(const std::string& path, std::size_t columns, const Line& each) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) Throw(tuttiInvalidArgument, "cannot read {}, or it is empty", path);
  for (int number = 2; std::getline(file, line); ++number) {
    const std::string where = fmt::format("{}:{}", path, number);
    const auto fields = Fields(line);
    if (fields.size() != columns) {
      Throw(tuttiInvalidArgument, "{}: {} fields, but {} are expected", where, fields.size(), columns);
    }
    each(fields, where);
  }
}

std::vector<Described> ReadSystems(const std::string& path) {
  enum { kSystem, kTopology, kChannels, kNvlsChannels, kColumns };
  std::vector<Described> systems;
  EachLine(path, kColumns, [&](const std::vector<std::string>& fields, const std::string& where) {
    systems.push_back({fields[kSystem], fields[kTopology], Number<int>(fields[kChannels], where),
                       Number<int>(fields[kNvlsChannels], where)});
  });
  return systems;
}

// The measured library's word for an algorithm.
tuttiAlgorithm_t AlgorithmOf(const std::string& word, const std::string& where) {
  if (word == "tree") return tuttiAlgorithmDoubleBinaryTree;
  if (const auto algorithm = builders::AlgorithmFromName(word)) return *algorithm;
  Throw(tuttiInvalidArgument, "{}: algorithm \"{}\" is unknown", where, word);
}

// For in-switch reduction, the measured library divides a block of 640 threads among three lanes.
constexpr int kNvlsLaneThreads = 640 / 3;

class Comparing {
 public:
  explicit Comparing(const std::string& systems) : file_(systems), systems_(ReadSystems(systems)) {}

  Comparison Compare(const std::vector<std::string>& fields, const std::string& where) {
    Comparison comparison;
    comparison.system = fields[kSystem];
    comparison.ranks = Number<int>(fields[kRanks], where);
    comparison.nodes = Number<int>(fields[kNodes], where);
    comparison.collective = cost_model::ParseCollective(fields[kCollective]);
    comparison.algorithm = fields[kAlgorithm];
    comparison.bytes = Number<std::size_t>(fields[kBytes], where);
    comparison.published_us = Number<double>(fields[kTime], where);
    comparison.fitted = fields[kFitted] == "yes";
    comparison.source = fields[kSource];
    const auto algorithm = AlgorithmOf(comparison.algorithm, where);
    const bool nvls = builders::RecordOf(algorithm).needs.a_switch;
    const Described& described = Find(comparison.system, where);
    const cost_model::Machine machine = cost_model::MachineOfSystem(
        xml::ReadTopologyFile(described.topology).system, comparison.nodes, comparison.ranks / comparison.nodes,
        nvls ? cost_model::Blocks{kNvlsLaneThreads} : cost_model::Blocks{});
    const Outcome outcome = Fastest(
        {machine},
        {comparison.collective, {algorithm}, comparison.bytes, nvls ? described.nvls_channels : described.channels});
    comparison.simulated_us = outcome.result.duration_us;
    comparison.how = fmt::format("{}, {}", ring::NameOf(outcome.call.config.protocol),
                                 report::FormatSize(outcome.call.config.chunk_bytes));
    return comparison;
  }

  // In the order of the file's columns.
  enum {
    kSystem,
    kRanks,
    kNodes,
    kCollective,
    kAlgorithm,
    kChosen,
    kLibrary,
    kBytes,
    kTime,
    kFitted,
    kSource,
    kColumns
  };

 private:
  const Described& Find(const std::string& system, const std::string& where) const {
    const auto found =
        std::find_if(systems_.begin(), systems_.end(), [&](const Described& each) { return each.name == system; });
    if (found != systems_.end()) return *found;
    Throw(tuttiInvalidArgument, "{}: {} does not describe the system \"{}\"", where, file_, system);
  }

  std::string file_;
  std::vector<Described> systems_;
};

}  // namespace

std::vector<Comparison> ComparePublished(const std::string& path, const std::string& systems, int most_ranks) {
  Comparing comparing(systems);
  std::vector<Comparison> comparisons;
  report::Progress progress;
  EachLine(path, Comparing::kColumns, [&](const std::vector<std::string>& fields, const std::string& where) {
    if (Number<int>(fields[Comparing::kRanks], where) > most_ranks) return;
    progress.Step(where);
    comparisons.push_back(comparing.Compare(fields, where));
  });
  return comparisons;
}

double MedianError(const std::vector<Comparison>& comparisons) {
  std::vector<double> errors;
  for (const Comparison& comparison : comparisons) errors.push_back(std::abs(comparison.Error()));
  std::sort(errors.begin(), errors.end());
  return errors.empty() ? 0 : (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
}

double LargestError(const std::vector<Comparison>& comparisons) {
  double largest = 0;
  for (const Comparison& comparison : comparisons) largest = std::max(largest, std::abs(comparison.Error()));
  return largest;
}

std::vector<Comparison> Only(const std::vector<Comparison>& comparisons, bool (*wanted)(const Comparison&)) {
  std::vector<Comparison> only;
  std::copy_if(comparisons.begin(), comparisons.end(), std::back_inserter(only), wanted);
  return only;
}

void PrintPublished(const std::string& path, const std::string& systems) {
  const auto comparisons = ComparePublished(path, systems);
  fmt::print(
      "| system | ranks | nodes | collective | algorithm | bytes | published (us) | simulated (us) | error | protocol, "
      "chunk |\n");
  fmt::print("|---|--:|--:|---|---|--:|--:|--:|--:|---|\n");
  for (const Comparison& c : comparisons) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} %{} | {} |\n", c.system, c.ranks, c.nodes,
               schedule::NameOf(c.collective), c.algorithm, c.bytes, c.published_us, c.simulated_us, 100 * c.Error(),
               c.fitted ? " (fitted)" : "", c.how);
  }
  fmt::print("\n| rows | number | median of the absolute errors | largest |\n|---|--:|--:|--:|\n");
  const auto summary = [](const char* name, const std::vector<Comparison>& rows) {
    fmt::print("| {} | {} | {:.1f} % | {:.1f} % |\n", name, rows.size(), 100 * MedianError(rows),
               100 * LargestError(rows));
  };
  summary("all", comparisons);
  summary("to which no constant was fitted", Only(comparisons, [](const Comparison& c) { return !c.fitted; }));
  summary("in-switch reduction (NVLS)", Only(comparisons, IsNvls));
}

}  // namespace tutti::tools
