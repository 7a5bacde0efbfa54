// Ranks of one host give each other file descriptors (shared memory, a pidfd) over an abstract Unix socket: nothing in
// the file system, nothing left behind. Collective: every rank of the communicator calls it, those of other hosts too.
//
// The kernel limits the descriptors of a user that are in flight (RLIMIT_NOFILE), and those that a process holds. So
// the lowest rank of a host asks a few members at a time for theirs, passes them on to a few at a time, waits until
// they have arrived, and closes them before it asks for more. Both numbers stay bounded, however many ranks there are.
// Ranks of one process exchange no descriptors: they find each other's objects in the process's register.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/all_gather.h"
#include "base/clocks/deadline.h"
#include "base/file_descriptor.h"
#include "transports/shm/hosts.h"

namespace tutti::shm {

struct Locality {
  int rank = 0;
  Hosts hosts;
  std::vector<int> process_of;  // by rank; equal numbers: ranks of one process

  // This rank and those that share memory with it, ascending.
  std::vector<int> Local() const { return hosts.RanksWith(rank); }
  bool SameProcess(int a, int b) const {
    return process_of[static_cast<std::size_t>(a)] == process_of[static_cast<std::size_t>(b)];
  }
};

// Takes the descriptors of one rank. Ranks come in any order.
using TakeDescriptors = std::function<void(int rank, std::vector<FileDescriptor> descriptors)>;

// Sends copies of `mine` (1 to 4) to each rank of this host in another process, and gives `take` theirs. Every rank
// must give equally many. The lowest rank collects and distributes; the socket's random name and a random token travel
// over the control plane, which is authenticated. If a rank dies on the way, the control plane's next exchange fails
// and names it. When the function returns, every rank has everything.
// Throws tuttiTimeoutError or tuttiRemoteError naming a rank, tuttiInvalidUsage (another user's process),
// tuttiSystemError, and what all_gather and `take` throw.
void ExchangeDescriptors(const Locality& locality, std::span<const int> mine, const AllGather& all_gather,
                         Deadline deadline, const TakeDescriptors& take);

}  // namespace tutti::shm
