// What this process holds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace tutti::testing {

// One line for each open descriptor. Folders of /proc do not count: other threads may count, too.
inline std::vector<std::string> DescribeDescriptors() {
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/thread-self/fd")) {
    std::error_code closed;
    const auto what = std::filesystem::read_symlink(entry, closed).string();
    if (!closed && !what.starts_with("/proc/")) lines.push_back(entry.path().filename().string() + ": " + what);
  }
  return lines;
}
inline std::ptrdiff_t OpenDescriptors() { return std::ssize(DescribeDescriptors()); }
inline std::ptrdiff_t Threads() {
  const std::filesystem::directory_iterator entries("/proc/self/task");
  return std::distance(begin(entries), end(entries));
}

}  // namespace tutti::testing
