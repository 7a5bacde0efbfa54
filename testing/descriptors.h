// What this process holds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace tutti::testing {

inline std::ptrdiff_t EntriesOf(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return std::distance(begin(entries), end(entries));
}
inline std::ptrdiff_t OpenDescriptors() { return EntriesOf("/proc/thread-self/fd"); }
inline std::ptrdiff_t Threads() { return EntriesOf("/proc/self/task"); }

}  // namespace tutti::testing
