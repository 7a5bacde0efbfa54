#include "base/settings/nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
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

constexpr std::size_t kLettersEach = 3;  // for a mistake
constexpr std::string_view kBetweenWords = "_-";

// The length of the whole words, each with what follows it, that both names begin with.
std::size_t SharedWords(std::string_view one, std::string_view other) {
  const auto shared = one.substr(0, static_cast<std::size_t>(std::ranges::mismatch(one, other).in1 - one.begin()));
  const auto last = shared.find_last_of(kBetweenWords);
  return last == std::string_view::npos ? 0 : last + 1;
}

std::string Reversed(std::string_view text) { return {text.rbegin(), text.rend()}; }

// One of the names is the other's first half or more.
bool OneBeginsTheOther(std::string_view one, std::string_view other) {
  const auto [shorter, longer] = std::minmax(one, other, [](auto a, auto b) { return a.size() < b.size(); });
  return longer.starts_with(shorter) && shorter.size() * 2 >= longer.size();
}

// How many mistakes make `typed` of `name`, and of how many letters; none if that is more than a person makes. A left
// out or added end is one mistake.
std::optional<std::pair<std::size_t, std::size_t>> MistakesIn(std::string_view typed, std::string_view name) {
  const auto letters = Distance(typed, name);
  const bool takes_one = typed.size() >= kLettersEach;
  if (letters > 0 && takes_one && OneBeginsTheOther(typed, name)) return {{1, letters}};
  // Words that both have say nothing about the others: OP_TIMEOUT is not IB_TIMEOUT.
  const auto first = SharedWords(typed, name);
  typed.remove_prefix(first);
  name.remove_prefix(first);
  const auto last = SharedWords(Reversed(typed), Reversed(name));
  typed.remove_suffix(last);
  name.remove_suffix(last);
  const auto mistakes = Distance(typed, name);
  const bool one_of_a_short_word = takes_one && mistakes == 1 && typed.size() > 1;
  if (mistakes * kLettersEach > typed.size() && !one_of_a_short_word) return std::nullopt;
  return {{mistakes, letters}};
}

std::string_view WithoutDashes(std::string_view option) {
  return option.substr(std::min(option.find_first_not_of('-'), option.size()));
}

}  // namespace

std::string_view NearestName(std::string_view name, std::span<const std::string_view> names) {
  std::string_view nearest;
  std::optional<std::pair<std::size_t, std::size_t>> least;
  for (const auto each : names) {
    const auto mistakes = MistakesIn(WithoutDashes(name), WithoutDashes(each));
    if (!mistakes || (least && *least <= *mistakes)) continue;
    least = mistakes;
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
