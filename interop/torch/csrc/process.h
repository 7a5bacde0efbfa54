// A rank's process, so that other processes on its host can see whether it still runs.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::pytorch {

struct Process {
  std::string system;  // the boot and the pid namespace that the number belongs to
  std::string host;    // for messages
  int number = 0;
  std::uint64_t started = 0;  // in the kernel's ticks since boot; tells apart processes that reuse a number

  static Process Own();
  // "host vm, pid 3069"
  std::string Text() const;
  // Whether it has certainly ended. Never certain for a process that is on another host or cannot be seen.
  bool HasEnded() const;

  // Converts to one word and back. REQUIRES: `word` comes from Word. Any other word gives a process without a system.
  std::string Word() const;
  static Process FromWord(const std::string& word);
};

}  // namespace tutti::pytorch
