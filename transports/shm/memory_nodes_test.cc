#include "transports/shm/memory_nodes.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "transports/shm/fabric.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::shm {
namespace {

constexpr std::size_t kPage = 4096;

TEST(MemoryNodes, EveryPageOfABulkRingIsAtItsReader) {
  for (const int nranks : {2, 3, 5, 8}) {
    const ring::Layout layout(nranks, 2);
    std::vector<int> node_of;
    for (int rank = 0; rank < nranks; ++rank) node_of.push_back(rank % 2);
    const auto pages = PagesByReader(layout, 0, node_of, kPage);
    std::size_t end = 0;
    for (const auto& run : pages) {
      EXPECT_EQ(run.offset % kPage, 0u);
      EXPECT_EQ(run.bytes % kPage, 0u);
      EXPECT_GE(run.offset, end);
      end = run.offset + run.bytes;
    }
    EXPECT_LE(end, layout.bytes());
    for (int channel = 0; channel < 2; ++channel) {
      for (int peer = 1; peer < nranks; ++peer) {
        // The first page may be the neighbour's.
        const std::size_t first = layout.RingOffset(channel, ring::Protocol::bulk, peer) / kPage + 1;
        const std::size_t last = (layout.RingOffset(channel, ring::Protocol::bulk, peer) +
                                  layout.RingBytes(ring::Protocol::bulk, peer) - 1) /
                                 kPage;
        for (std::size_t page = first; page <= last; ++page) {
          const auto run = std::find_if(pages.begin(), pages.end(), [&](const PlacedPages& each) {
            return each.offset <= page * kPage && page * kPage < each.offset + each.bytes;
          });
          ASSERT_NE(run, pages.end()) << page;
          EXPECT_EQ(run->node, peer % 2) << page;
        }
      }
    }
  }
}

TEST(MemoryNodes, NothingIsPlacedOnOneNodeOrUnknownOnes) {
  const ring::Layout layout(3, 1);
  EXPECT_TRUE(PagesByReader(layout, 0, std::vector<int>{0, 0, 0}, kPage).empty());
  EXPECT_TRUE(PagesByReader(layout, 0, std::vector<int>(3, kNoMemoryNode), kPage).empty());
  const auto pages = PagesByReader(layout, 0, std::vector<int>{0, 1, kNoMemoryNode}, kPage);
  ASSERT_FALSE(pages.empty());
  for (const auto& run : pages) EXPECT_EQ(run.node, 1);
}

// The first processor of this process's on each NUMA node.
std::vector<int> ProcessorOfEachNode() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> processors;
  for (int node = 0; std::filesystem::exists("/sys/devices/system/node/node" + std::to_string(node)); ++node) {
    for (int each = 0; each < CPU_SETSIZE; ++each) {
      const auto link = "/sys/devices/system/cpu/cpu" + std::to_string(each) + "/node" + std::to_string(node);
      if (!CPU_ISSET(each, &allowed) || !std::filesystem::exists(link)) continue;
      processors.push_back(each);
      break;
    }
  }
  return processors;
}

// The test `guest` runs this in a virtual machine with two nodes.
TEST(MemoryNodes, AThreadStaysOnItsNode) {
  const auto processors = ProcessorOfEachNode();
  const auto node_after = [](int node, int threads = 1) {
    int own = kNoMemoryNode;
    std::thread([&] {
      RunOnMemoryNode(node, threads);
      own = OwnMemoryNode();
    }).join();
    return own;
  };
  for (std::size_t node = 0; node < processors.size(); ++node) {
    EXPECT_EQ(node_after(static_cast<int>(node)), static_cast<int>(node));
  }
  EXPECT_EQ(node_after(0, CPU_SETSIZE + 1), OwnMemoryNode()) << "the node has too few processors";
  constexpr int kNone = 1000;
  EXPECT_EQ(node_after(kNone), OwnMemoryNode()) << "there is no such node, so the thread stays where it may run";
}

int NodeOfPage(const void* address) {
  void* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1));
  int status = -1;
  syscall(SYS_move_pages, 0, 1UL, &page, nullptr, &status, 0);
  return status;
}

// Each rank is the first to touch the slots that it fills, and yet they are at their readers. The test `guest` runs this
// in a virtual machine with two nodes.
TEST(MemoryNodes, TheKernelPutsSlotsAtTheirReaders) {
  const auto processors = ProcessorOfEachNode();
  if (processors.size() < 2) GTEST_SKIP() << "fewer than two NUMA nodes with processors that may be used";
  constexpr int kRanks = 4;
  std::atomic<int> looked{0};
  const auto thrown = RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(processors[static_cast<std::size_t>(rank % 2)], &mine);
    ASSERT_EQ(sched_setaffinity(0, sizeof mine, &mine), 0);
    ASSERT_EQ(OwnMemoryNode(), rank % 2);
    const std::vector<int> all(kRanks, 0);
    Fabric fabric(rank, {all, all}, 1, Settings{}, all_gather, Deadline::After(std::chrono::seconds(60)));
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      auto* const slots = fabric.segment(rank) + fabric.layout().RingOffset(0, ring::Protocol::bulk, peer);
      for (std::size_t page = 1; page < 16; ++page) {
        slots[page * kPage] = std::byte{1};
        EXPECT_EQ(NodeOfPage(slots + page * kPage), peer % 2) << rank << " for " << peer;
        ++looked;
      }
    }
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(kRanks));
  EXPECT_EQ(looked.load(), kRanks * (kRanks - 1) * 15);
}

}  // namespace
}  // namespace tutti::shm
