// Lists of numbers for people.
//
// Thread-safety: pure function.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tutti {

// "0-3,8,10-11" for ascending numbers; "N/A" for none.
inline std::string NumberRanges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += last == first ? fmt::format("{}", numbers[first]) : fmt::format("{}-{}", numbers[first], numbers[last]);
    first = last + 1;
  }
  return text.empty() ? "N/A" : text;
}

}  // namespace tutti
