// Consecutive indices, and how a number of things is divided over ranks, rounds or parts that differ by one at most.
//
// Thread-safety: pure functions; constexpr, so that kernels call them, too.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tutti/tutti.h"

namespace tutti::parallel {

// [begin, end).
struct TUTTI_API IndexRange {
  std::size_t begin = 0, end = 0;

  constexpr std::size_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

// Part `part` of `parts` of [0, count). Parts are equally long, or count % parts of them, from `first_longer` on and
// around, are longer by one. With 0 these are the parts of torch.tensor_split. REQUIRES: part and first_longer < parts.
constexpr IndexRange part_of(std::size_t count, std::size_t part, std::size_t parts, std::size_t first_longer = 0) {
  const auto begin = [&](std::size_t of) {
    // Longer parts are [first_longer, first_longer + longer); those that are beyond the last one begin again at 0.
    const std::size_t longer = count % parts, end = first_longer + longer, around = end > parts ? end - parts : 0;
    const std::size_t before = std::min(of, around) + (of > first_longer ? std::min(of, end) - first_longer : 0);
    return of * (count / parts) + before;
  };
  return {begin(part), begin(part + 1)};
}

}  // namespace tutti::parallel
