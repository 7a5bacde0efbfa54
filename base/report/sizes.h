// Message sizes on the command line: "8", "64K", "1M", and the sweeps made of them. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::report {

// Powers of 1024 with the suffixes K, M, G (either case, "KiB" and "KB" too); a fraction is allowed before a suffix
// ("1.5M"). Throws UsageError with a message for a person.
std::size_t ParseSize(std::string_view text);

// "8", "64K", "1M": the shortest exact form.
std::string FormatSize(std::size_t bytes);

// From `begin` to `end`, both included: times `factor` when it is above 1, else plus `step`.
// REQUIRES: begin <= end, and begin > 0 when factor > 1. Throws UsageError otherwise.
std::vector<std::size_t> Sweep(std::size_t begin, std::size_t end, double factor, std::size_t step);

}  // namespace tutti::report
