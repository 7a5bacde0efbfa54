// The process of a rank, so that others of its host can see whether it still runs.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::pytorch {

struct Process {
  std::string system;  // the boot and the pid namespace that the number belongs to
  std::string host;    // for people
  int number = 0;
  std::uint64_t started = 0;  // in the kernel's ticks since the boot; a number that is used again has another

  static Process Own();
  // "host vm, pid 3069"
  std::string Text() const;
  // Whether it has certainly ended. Never certain for a process that is on another host or cannot be seen.
  bool HasEnded() const;

  // As one word, and back. REQUIRES: `word` comes from Word. Any other word gives a process of no system.
  std::string Word() const;
  static Process FromWord(const std::string& word);
};

}  // namespace tutti::pytorch
