#include "transports/shm/memory_nodes.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "base/numbers/rounding.h"

namespace tutti::shm {
namespace {

// A list of processors as the kernel writes it: "0-3,8".
cpu_set_t ProcessorsOf(unsigned node) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::ifstream file(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
  int first = 0;
  while (file >> first) {
    int last = first;
    if (file.peek() == '-') {
      file.ignore();
      file >> last;
    }
    for (int each = first; each <= std::min(last, CPU_SETSIZE - 1); ++each) CPU_SET(each, &set);
    if (file.peek() != ',') break;
    file.ignore();
  }
  return set;
}

}  // namespace

int OwnMemoryNode() {
  unsigned processor = 0, node = 0;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (syscall(SYS_getcpu, &processor, &node, nullptr) != 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return kNoMemoryNode;
  const cpu_set_t near = ProcessorsOf(node);
  cpu_set_t both;
  CPU_AND(&both, &allowed, &near);
  return CPU_EQUAL(&both, &allowed) ? static_cast<int>(node) : kNoMemoryNode;
}

void RunOnMemoryNode(int node, int threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (node == kNoMemoryNode || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t both;
  const cpu_set_t near = ProcessorsOf(static_cast<unsigned>(node));
  CPU_AND(&both, &allowed, &near);
  if (CPU_COUNT(&both) >= threads) sched_setaffinity(0, sizeof both, &both);
}

std::vector<PlacedPages> PagesByReader(const ring::Layout& layout, int owner, std::span<const int> node_of,
                                       std::size_t page_bytes) {
  std::set<int> known(node_of.begin(), node_of.end());
  known.erase(kNoMemoryNode);
  if (known.size() < 2) return {};
  std::vector<PlacedPages> rings;
  for (int channel = 0; channel < layout.channels(); ++channel) {
    for (const ring::Protocol protocol : {ring::Protocol::line, ring::Protocol::inlined, ring::Protocol::bulk}) {
      for (int peer = 0; peer < layout.nranks(); ++peer) {
        const int node = node_of[static_cast<std::size_t>(peer)];
        if (peer == owner || node == kNoMemoryNode) continue;
        rings.push_back({layout.RingOffset(channel, protocol, peer), layout.RingBytes(protocol, peer), node});
      }
    }
  }
  std::sort(rings.begin(), rings.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::vector<PlacedPages> pages;
  std::size_t placed = 0;  // where the pages that have a node end
  for (const auto& ring : rings) {
    const std::size_t begin = std::max(placed, RoundDown(ring.offset, page_bytes));
    const std::size_t end = RoundUp(ring.offset + ring.bytes, page_bytes);
    if (begin >= end) continue;
    if (!pages.empty() && placed == begin && pages.back().node == ring.node) {
      pages.back().bytes += end - begin;
    } else {
      pages.push_back({begin, end - begin, ring.node});
    }
    placed = end;
  }
  return pages;
}

void PlacePages(std::byte* segment, const std::vector<PlacedPages>& pages) {
  constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
  constexpr std::size_t kMostNodes = 1024;  // Linux's limit, MAX_NUMNODES
  for (const auto& run : pages) {
    const auto node = static_cast<std::size_t>(run.node);
    if (node >= kMostNodes) continue;
    std::array<unsigned long, kMostNodes / kWordBits> nodes{};
    nodes[node / kWordBits] = 1UL << node % kWordBits;
    // The policy belongs to the shared file, so it holds for every process that maps it. The kernel takes one bit fewer
    // than it is told.
    syscall(SYS_mbind, segment + run.offset, run.bytes, MPOL_PREFERRED, nodes.data(), kMostNodes + 1, 0);
  }
}

}  // namespace tutti::shm
