#include "base/unknown_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/plain_text.h"

namespace tutti {
namespace {

// Of programs, tests and scripts: the names begin like this.
constexpr std::array<std::string_view, 17> kOthers = {
    "TUTTI_ANY_PROCESSOR", "TUTTI_BASH",      "TUTTI_BENCH", "TUTTI_CLUSTER", "TUTTI_CUBLAS", "TUTTI_CUDA",
    "TUTTI_EXAMPLES",      "TUTTI_FRAMEWORK", "TUTTI_HOME",  "TUTTI_LIBRARY", "TUTTI_MPI",    "TUTTI_NCCL_EXAMPLE",
    "TUTTI_NVCC",          "TUTTI_FAKE_GPU",  "TUTTI_SUITE", "TUTTI_TEST",    "TUTTI_TORCH"};

// Letters to change, add or leave out (V. Levenshtein, "Binary codes capable of correcting deletions, insertions and
// reversals", 1966).
std::size_t Distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view NearestName(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t kLettersEach = 2;
  std::string_view nearest;
  std::size_t least = name.size() / kLettersEach + 1;
  for (const auto each : names) {
    const std::size_t distance = Distance(name, each);
    if (distance >= least) continue;
    least = distance;
    nearest = each;
  }
  return nearest;
}

std::string UnknownSettingsIn(std::span<const std::string_view> environment,
                              std::span<const std::string_view> settings) {
  constexpr std::string_view kPrefix = "TUTTI_";
  std::vector<std::string_view> ends;  // the common beginning would make all names alike
  for (const auto setting : settings) ends.push_back(setting.substr(kPrefix.size()));
  std::string told;
  for (const auto entry : environment) {
    const auto name = entry.substr(0, entry.find('='));
    const bool known = !name.starts_with(kPrefix) || std::ranges::find(settings, name) != settings.end() ||
                       std::ranges::any_of(kOthers, [&](auto other) { return name.starts_with(other); });
    if (known) continue;
    const auto nearest = NearestName(name.substr(kPrefix.size()), ends);
    told += fmt::format("tutti: {} is not a setting{} (`tutti settings` lists them)\n", Printable(name),
                        nearest.empty() ? "" : fmt::format("; did you mean {}{}?", kPrefix, nearest));
  }
  return told;
}

}  // namespace tutti
