// The ranks of a program on this machine: processes with the environment that tuttiCommInitEnv reads. None is left
// behind: the kernel ends them if this process dies.
//
// Thread-safety: one thread, which stays alive as long as the ranks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

inline constexpr int kCannotExecute = 127;  // a shell's exit status, too

struct RanksWanted {
  int ranks = 0;
  std::vector<std::string> command;
  bool tag = false;                    // each line of output begins with its rank
  std::chrono::milliseconds patience;  // after a rank has failed, how long the others may take to end by themselves
};

// Exit statuses are as a shell would tell them: 128 and the signal's number if a signal ended the process.
struct RankEnd {
  pid_t pid = -1;
  int status = 0;
  int signal = 0;  // that ended it; 0: none
  std::chrono::microseconds ran{};
};

struct JobEnd {
  int status = 0;                   // of the rank that failed first; if a signal came to the job before, of that signal
  std::optional<int> failed_first;  // that rank
  std::vector<RankEnd> ranks;
};

// Starts them, waits for all, and passes signals on. Throws tuttiSystemError.
JobEnd RunRanks(const RanksWanted& wanted);

}  // namespace tutti::tools
