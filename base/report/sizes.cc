#include "base/report/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/usage_error.h"

namespace tutti::report {
namespace {

// A sweep longer than this is a typing error, not a wish.
constexpr std::size_t kMaxSweep = 100'000;

double Unit(std::string_view suffix, std::string_view text) {
  std::string lower(suffix);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.empty() || lower == "b") return 1;
  constexpr std::string_view kUnits = "kmgt";
  const std::size_t unit = kUnits.find(lower[0]);
  const std::string rest = lower.substr(1);
  if (unit == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) {
    ThrowUsage("size \"{}\": unknown unit \"{}\"; use B, K, M, G or T (powers of 1024)", text, suffix);
  }
  return std::pow(1024.0, static_cast<double>(unit + 1));
}

}  // namespace

std::size_t ParseSize(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) {
    ThrowUsage("size \"{}\" is not a number of bytes such as 8, 64K or 1M", text);
  }
  const double bytes = number * Unit(text.substr(static_cast<std::size_t>(end - text.data())), text);
  constexpr double kLargest = 1ULL << 50;
  if (bytes > kLargest || bytes != std::floor(bytes)) {
    ThrowUsage("size \"{}\" is not a whole number of bytes up to 1024T", text);
  }
  return static_cast<std::size_t>(bytes);
}

std::string FormatSize(std::size_t bytes) {
  constexpr std::string_view kUnits = " KMGT";
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}", bytes, kUnits[unit]);
}

std::vector<std::size_t> Sweep(std::size_t begin, std::size_t end, double factor, std::size_t step) {
  if (begin > end) {
    ThrowUsage("the first size (-b {}) is above the last (-e {})", FormatSize(begin), FormatSize(end));
  }
  const bool geometric = factor > 1;
  if (begin < end && !geometric && step == 0) ThrowUsage("the step between sizes (-i) is 0");
  if (begin < end && geometric && begin == 0) {
    ThrowUsage("a sweep by a factor (-f) cannot start from 0 bytes (-b)");
  }
  std::vector<std::size_t> sizes;
  for (std::size_t size = begin; size <= end;) {
    sizes.push_back(size);
    if (sizes.size() > kMaxSweep) ThrowUsage("the sweep has more than 100,000 sizes");
    const std::size_t next = geometric ? static_cast<std::size_t>(static_cast<double>(size) * factor) : size + step;
    size = std::max(next, size + 1);
  }
  return sizes;
}

}  // namespace tutti::report
