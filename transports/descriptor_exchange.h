// Ranks of one host give each other file descriptors (shared memory, a pidfd) over an abstract Unix socket: nothing in
// the file system, nothing left behind. Collective: every rank of the communicator calls it, those of other hosts too.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "transports/segment.h"

namespace tutti {

// Collective over the control plane: every rank's bytes in rank order.
using AllGather = std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)>;

// The ranks that can share memory with `rank`, itself included, in ascending order; result[r] is the list that r sees.
// Two ranks belong together when they see the same kernel and the same network namespace (abstract sockets live in it).
std::vector<std::vector<int>> GroupByHost(const AllGather& all_gather);

// Sends copies of `mine` (at most 4) to each rank of `local` and returns theirs: result[i] belongs to local[i] (own
// entry empty). Every rank of `local` must give equally many. The lowest rank collects and distributes; the socket's
// random name and a random token travel over the control plane, which is authenticated, so that strangers who find the
// socket are turned away. A rank that dies on the way fails the control plane's next exchange, which names it.
// Throws tuttiTimeoutError or tuttiRemoteError naming the lowest rank, tuttiSystemError, and what all_gather throws.
std::vector<std::vector<FileDescriptor>> ExchangeDescriptors(int rank, const std::vector<int>& local,
                                                             std::span<const int> mine, const AllGather& all_gather,
                                                             Deadline deadline);

}  // namespace tutti
