#include "base/settings/nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/plain_text.h"

namespace tutti {
namespace {

// Letters to change, add, leave out or swap with their neighbours (F. Damerau, "A technique for computer detection and
// correction of spelling errors", 1964; no letter takes part twice).
std::size_t Distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1), above(to.size() + 1), row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t changed = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({changed, above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
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

std::string DidYouMean(std::string_view name, std::span<const std::string_view> names) {
  const auto nearest = NearestName(name, names);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

std::string UnknownName(std::string_view what, std::string_view name, std::span<const std::string_view> names) {
  const auto meant = DidYouMean(name, names);
  return fmt::format("{} {} is unknown{} are {}", what, Quoted(name), meant.empty() ? "; known" : meant + " Known",
                     fmt::join(names, ", "));
}

}  // namespace tutti
