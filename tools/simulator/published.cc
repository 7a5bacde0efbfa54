#include "tools/simulator/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "report/sizes.h"
#include "selection/cost_model/machine_of_system.h"
#include "tools/simulator/simulated.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

// Descriptions of the published systems, by the beginning of their names, and the number of channels that the measured
// library finally uses there.
struct Described {
  std::string_view name;
  const char* file;
  int channels;
};
constexpr std::array<Described, 3> kSystems = {{
    {"dgxa100", "topology/testdata/azure_ndv4_full.xml", 24},
    {"dgxh100", "topology/testdata/dgxh100.xml", 24},
    {"2 nodes x 1 H100, 4 NICs", "selection/cost_model/testdata/h100_4nics.xml", 16},
}};

const Described& DescriptionOf(const std::string& system) {
  const auto found = std::find_if(kSystems.begin(), kSystems.end(), [&](const Described& described) {
    return std::string_view(system).substr(0, described.name.size()) == described.name;
  });
  if (found == kSystems.end()) Throw(tuttiInvalidArgument, "no description of the published system \"{}\"", system);
  return *found;
}

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

// Only algorithms that the measured library has. On one node its own tuner chooses rings at every size.
tuttiAlgorithm_t AlgorithmOf(const std::string& published) {
  return published == "tree" ? tuttiAlgorithmDoubleBinaryTree : tuttiAlgorithmRing;
}

Comparison Compare(const std::vector<std::string>& fields, const std::string& where) {
  constexpr std::size_t kFields = 10;  // system,ranks,nodes,collective,algorithm,library,bytes,time_us,busbw,source
  if (fields.size() != kFields)
    Throw(tuttiInvalidArgument, "{}: {} fields, but {} are expected", where, fields.size(), kFields);
  if (fields[3] != "all_reduce")
    Throw(tuttiInvalidArgument, "{}: collective \"{}\" is not supported; only all_reduce is", where, fields[3]);
  Comparison comparison{fields[0], fields[4].substr(0, fields[4].find(' ')), Number<std::size_t>(fields[6], where),
                        Number<double>(fields[7], where)};
  const int ranks = Number<int>(fields[1], where);
  const int nodes = Number<int>(fields[2], where);
  const Described& described = DescriptionOf(comparison.system);
  const bool one_channel = comparison.system.find("1 channel") != std::string::npos;
  const cost_model::Machine machine =
      cost_model::MachineOfSystem(xml::ReadTopologyFile(described.file).system, nodes, ranks / nodes);
  const Outcome outcome = Fastest({machine}, {schedule::Collective::all_reduce,
                                              {AlgorithmOf(comparison.algorithm)},
                                              comparison.bytes,
                                              one_channel ? 1 : described.channels});
  comparison.simulated_us = outcome.result.duration_us;
  comparison.how = fmt::format("{}, {}", ring::NameOf(outcome.call.config.protocol),
                               report::FormatSize(outcome.call.config.chunk_bytes));
  return comparison;
}

}  // namespace

std::vector<Comparison> ComparePublished(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) Throw(tuttiInvalidArgument, "cannot read {}, or it is empty", path);
  std::vector<Comparison> comparisons;
  for (int number = 2; std::getline(file, line); ++number) {
    comparisons.push_back(Compare(Fields(line), fmt::format("{}:{}", path, number)));
  }
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

void PrintPublished(const std::string& path) {
  const auto comparisons = ComparePublished(path);
  fmt::print("| system | algorithm | bytes | published (us) | simulated (us) | error | protocol, chunk |\n");
  fmt::print("|---|---|--:|--:|--:|--:|---|\n");
  for (const Comparison& c : comparisons) {
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} % | {} |\n", c.system, c.algorithm, c.bytes, c.published_us,
               c.simulated_us, 100 * c.Error(), c.how);
  }
  fmt::print("\nMedian of the absolute errors: {:.1f} %; the largest: {:.1f} %.\n", 100 * MedianError(comparisons),
             100 * LargestError(comparisons));
}

}  // namespace tutti::tools
