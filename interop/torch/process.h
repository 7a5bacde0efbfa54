// Which process a rank is, so that others of its host can see whether it still runs.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::pytorch {

struct Process {
  std::string system;  // the boot and the namespace of processes that the number belongs to
  std::string host;    // for people
  int number = 0;
  std::uint64_t started = 0;  // in the kernel's ticks since the boot; a number that is used again differs in it

  static Process Own();
  // "host vm, pid 3069"
  std::string Text() const;
  // Certainly does not run any more. Of a process of another host, or that cannot be seen, nothing is certain.
  bool HasEnded() const;

  // As one word, and back. REQUIRES: `word` is what Word gave. A word that is not gives a process of no system.
  std::string Word() const;
  static Process FromWord(const std::string& word);
};

}  // namespace tutti::pytorch
