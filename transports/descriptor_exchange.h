// Ranks of one host give each other file descriptors (shared memory, a pidfd) over an abstract Unix socket: nothing in
// the file system, nothing left behind. Collective: every rank of the communicator calls it, those of other hosts too.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "transports/hosts.h"
#include "transports/segment.h"

namespace tutti {

// Sends copies of `mine` (at most 4) to each rank of `local` and returns theirs: result[i] belongs to local[i] (own
// entry empty). Every rank of `local` must give equally many. The lowest rank collects and distributes; the socket's
// random name and a random token travel over the control plane, which is authenticated, so that strangers who find the
// socket are turned away. A rank that dies on the way fails the control plane's next exchange, which names it.
// Throws tuttiTimeoutError or tuttiRemoteError naming the lowest rank, tuttiSystemError, and what all_gather throws.
std::vector<std::vector<FileDescriptor>> ExchangeDescriptors(int rank, const std::vector<int>& local,
                                                             std::span<const int> mine, const AllGather& all_gather,
                                                             Deadline deadline);

}  // namespace tutti
