// The ranks of a program on this machine: processes with the environment that tuttiCommInitEnv reads. None is left
// behind: the kernel ends them if this process dies.
//
// Thread-safety: one thread, which stays alive as long as the ranks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tutti::tools {

struct RanksWanted {
  int ranks = 0;
  std::vector<std::string> command;
  bool tag = false;                    // each line of output begins with its rank
  std::chrono::milliseconds patience;  // after a rank has failed, how long the others may take to end by themselves
};

// Starts them, waits for all, and passes signals on. Returns the exit status of the rank that failed first, as a shell
// would tell it: 128 and the signal's number if a signal ended it. Throws tuttiSystemError.
int RunRanks(const RanksWanted& wanted);

}  // namespace tutti::tools
