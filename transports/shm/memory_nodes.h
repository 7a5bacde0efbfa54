// Where shared memory lies on a host with several NUMA nodes: a ring's slots on the node of the rank that polls them.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transports/ring/layout.h"

namespace tutti::shm {

inline constexpr int kNoMemoryNode = -1;

// The NUMA node of all processors that this thread may run on. kNoMemoryNode: they are of several nodes, or the system
// does not say.
int OwnMemoryNode();

// Keeps the calling thread on those processors of the node that it may use, if there are at least `threads`: as many as may
// be asked to run there. Best effort.
void RunOnMemoryNode(int node, int threads);

// A run of whole pages of a segment.
struct PlacedPages {
  std::size_t offset;
  std::size_t bytes;
  int node;
  friend bool operator==(const PlacedPages&, const PlacedPages&) = default;
};

// Which pages of `owner`'s segment belong on which node: those of a ring on its reader's. If several rings share a page,
// the first decides. `node_of`: by rank; kNoMemoryNode: unknown, or on another host. Empty where all known nodes are
// one: then every page is near already. Posts are read by all ranks, so they stay where their writer touches them first.
std::vector<PlacedPages> PagesByReader(const ring::Layout& layout, int owner, std::span<const int> node_of,
                                       std::size_t page_bytes);

// Asks the kernel for these places. REQUIRES: no page was touched. Best effort: a container may forbid it (mbind), and
// a node may be full; then the first rank that touches a page decides.
void PlacePages(std::byte* segment, const std::vector<PlacedPages>& pages);

}  // namespace tutti::shm
