// Compares losses of the same training, split in several ways: a table of differences from the first, and a chart.
//
//   compare_losses CHART.svg "one rank=one.txt" "DP 2=dp2.txt" ...
//
// Exits with 1 if one differs by more than kTolerance (relative) in any step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/report/chart.h"

namespace train_lm {
namespace {

constexpr double kTolerance = 1e-4;

struct Curve {
  std::string name;
  std::vector<double> losses;
};

// "name=file".
Curve Read(const std::string& argument) {
  const auto equals = argument.rfind('=');
  if (equals == std::string::npos) throw std::runtime_error(argument + " is not NAME=FILE");
  std::ifstream file(argument.substr(equals + 1));
  Curve curve{argument.substr(0, equals), {std::istream_iterator<double>(file), {}}};
  if (curve.losses.empty()) throw std::runtime_error("cannot read any losses from " + argument.substr(equals + 1));
  return curve;
}

// The relative difference of each step to the reference.
std::vector<double> Differences(const Curve& curve, const Curve& reference) {
  if (curve.losses.size() != reference.losses.size()) {
    throw std::runtime_error(fmt::format("\"{}\" has {} steps, \"{}\" has {}", curve.name, curve.losses.size(),
                                         reference.name, reference.losses.size()));
  }
  std::vector<double> differences;
  for (std::size_t i = 0; i < curve.losses.size(); ++i) {
    differences.push_back(std::abs(curve.losses[i] - reference.losses[i]) / reference.losses[i]);
  }
  return differences;
}

void Plot(const std::string& file, const std::vector<Curve>& curves) {
  tutti::report::Panel losses{.title = "mean loss of a byte (nats)", .logarithmic = false};
  tutti::report::Panel differences{
      .title = fmt::format("relative difference from {} (equal ones left out)", curves[0].name)};
  for (const auto& curve : curves) {
    tutti::report::Curve loss{.name = curve.name}, difference{.name = curve.name};
    const auto apart = Differences(curve, curves[0]);
    for (std::size_t i = 0; i < apart.size(); ++i) {
      const auto step = static_cast<double>(i + 1);
      loss.points.emplace_back(step, curve.losses[i]);
      if (apart[i] > 0) difference.points.emplace_back(step, apart[i]);
    }
    losses.curves.push_back(std::move(loss));
    differences.curves.push_back(std::move(difference));
  }
  tutti::WriteFile(file, tutti::report::Draw({.heading = "One model, split several ways",
                                              .panels = {losses, differences},
                                              .horizontal = "step",
                                              .bytes = false,
                                              .logarithmic = false}));
}

int Compare(const std::string& chart, const std::vector<std::string>& arguments) {
  std::vector<Curve> curves;
  for (const auto& argument : arguments) curves.push_back(Read(argument));
  bool equal = true;
  fmt::print("| split | steps | last loss | largest relative difference |\n|---|---|---|---|\n");
  for (const auto& curve : curves) {
    const auto differences = Differences(curve, curves.front());
    const double difference = std::ranges::max(differences);
    equal = equal && std::ranges::all_of(differences, [](double each) { return each <= kTolerance; });
    fmt::print("| {} | {} | {:.6f} | {:.1e} |\n", curve.name, curve.losses.size(), curve.losses.back(), difference);
  }
  Plot(chart, curves);
  if (!equal) fmt::print(stderr, "compare_losses: the losses differ by more than {}\n", kTolerance);
  return equal ? 0 : 1;
}

}  // namespace
}  // namespace train_lm

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: compare_losses CHART.svg NAME=FILE...\n");
    return 2;
  }
  try {
    return train_lm::Compare(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "compare_losses: {}\n", error.what());
    return 2;
  }
}
