// Multiples. Pure functions.
#pragma once

#include <cstddef>

namespace tutti {

// REQUIRES: unit > 0.
constexpr std::size_t RoundDown(std::size_t n, std::size_t unit) { return n / unit * unit; }
constexpr std::size_t RoundUp(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace tutti
