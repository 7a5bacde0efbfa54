// Windows: memory that all ranks register together and each deregisters on its own.
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kBytes = 256 * 1024;  // large enough that peers read it in place

// How many files of memory this process has mapped.
int MappedFiles() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") != std::string::npos ? 1 : 0;
  return count;
}

struct Memory {
  explicit Memory(std::size_t bytes) { EXPECT_TRUE(Ok(tuttiMemAlloc(&begin, bytes))); }
  ~Memory() { EXPECT_TRUE(Ok(tuttiMemFree(begin))); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* begin = nullptr;
};

tuttiWindow_t Registered(tuttiComm_t comm, void* memory, std::size_t bytes = kBytes) {
  tuttiWindow_t window = nullptr;
  EXPECT_TRUE(Ok(tuttiCommWindowRegister(comm, memory, bytes, &window, TUTTI_WIN_DEFAULT)));
  return window;
}

// Each rank's window starts at a different offset in its own allocation, and may be gone by the next call.
TEST(Windows, OfDifferentPlacesComeAndGo) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    constexpr std::size_t kCount = 40'000;
    void* memory = nullptr;
    const std::size_t offset = 64 * static_cast<std::size_t>(self.rank() + 1);
    ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, 3 * kCount * sizeof(float) + 8192)));
    auto* data = reinterpret_cast<float*>(static_cast<char*>(memory) + offset);
    for (int round = 0; round < 3; ++round) {
      tuttiWindow_t window = nullptr;
      // All of the data, or only the first half: then calls take other paths.
      const std::size_t bytes = (round == 1 ? kCount / 2 : kCount) * sizeof(float);
      ASSERT_TRUE(Ok(tuttiCommWindowRegister(comm, data, bytes, &window, TUTTI_WIN_DEFAULT)));
      for (const bool registered : {true, false}) {
        for (std::size_t i = 0; i < kCount; ++i)
          data[i] = static_cast<float>(i % 100) + static_cast<float>(self.rank());
        ASSERT_TRUE(Ok(tuttiAllReduce(data, data, kCount, tuttiFloat32, tuttiSum, comm, nullptr)));
        for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], static_cast<float>(3 * (i % 100) + 3)) << i;
        if (registered) {
          ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
        }
      }
    }
    void* handle = nullptr;
    ASSERT_TRUE(Ok(tuttiCommRegister(comm, data, kCount, &handle)));
    ASSERT_TRUE(Ok(tuttiBarrier(comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiCommDeregister(comm, handle)));
    EXPECT_TRUE(Fails(tuttiCommDeregister(comm, handle), tuttiInvalidUsage, {"handle", "tuttiCommRegister"}));
    // Twice, of two sizes: each is deregistered on its own.
    ASSERT_TRUE(Ok(tuttiCommRegister(comm, data, kCount, &handle)));
    ASSERT_TRUE(Ok(tuttiCommRegister(comm, data, kCount / 2, &handle)));
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(Ok(tuttiCommDeregister(comm, handle)));
    EXPECT_TRUE(Fails(tuttiCommDeregister(comm, handle), tuttiInvalidUsage, {"handle"}));
    EXPECT_TRUE(Ok(tuttiCommDeregister(comm, nullptr)));
    EXPECT_TRUE(Ok(tuttiCommWindowDeregister(comm, nullptr)));
    EXPECT_TRUE(Ok(tuttiMemFree(memory)));
  });
}

// More often than there are numbers, while some stay: a job that runs for weeks does not run out.
TEST(Windows, ComeAndGoOftenerThanThereAreNumbers) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    const Memory memory(kBytes);
    std::vector<tuttiWindow_t> kept;
    for (int i = 0; i < 3; ++i) kept.push_back(Registered(comm, memory.begin));
    for (int round = 0; round < 1'500; ++round) {
      auto* const window = Registered(comm, memory.begin);
      ASSERT_NE(window, nullptr) << round;
      ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
    }
    for (auto* window : kept) EXPECT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
    EXPECT_TRUE(Fails(tuttiCommWindowDeregister(comm, kept[0]), tuttiInvalidArgument, {"win", "not registered"}));
  });
}

TEST(Windows, HaveALimitWithASentence) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    constexpr std::size_t kPage = 4096;
    constexpr int kMost = 1024;
    const Memory memory(kPage);
    std::vector<tuttiWindow_t> windows;
    for (int i = 0; i < kMost; ++i) windows.push_back(Registered(comm, memory.begin, kPage));
    tuttiWindow_t one_more = nullptr;
    EXPECT_TRUE(Fails(tuttiCommWindowRegister(comm, memory.begin, kPage, &one_more, TUTTI_WIN_DEFAULT),
                      tuttiInvalidUsage, {"1024 windows"}));
    // The ranks choose different ones, so that no number is free.
    ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, windows[self.rank()])));
    EXPECT_TRUE(Fails(tuttiCommWindowRegister(comm, memory.begin, kPage, &one_more, TUTTI_WIN_DEFAULT),
                      tuttiInvalidUsage, {"1024 windows"}));
    ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, windows[1 - self.rank()])));
    EXPECT_NE(Registered(comm, memory.begin, kPage), nullptr);
  });
}

// Each rank deregisters when it likes: rank 0 first. The other rank still sends what lies in its window.
TEST(Windows, StayReadableWhereAnotherRankHasDeregistered) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    const Memory memory(kBytes);
    auto* const data = static_cast<std::uint8_t*>(memory.begin);
    std::vector<std::uint8_t> all(2 * kBytes);
    auto* const window = Registered(comm, memory.begin);
    if (self.rank() == 0) {
      ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
    }
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::uint8_t>(i + round + 100 * self.rank());
      ASSERT_TRUE(Ok(tuttiAllGather(data, all.data(), kBytes, tuttiUint8, comm, nullptr)));
      for (std::size_t i = 0; i < 2 * kBytes; ++i) {
        ASSERT_EQ(all[i], static_cast<std::uint8_t>(i % kBytes + round + 100 * (i / kBytes))) << i;
      }
    }
    if (self.rank() == 1) {
      ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
    }
  });
}

TEST(Windows, AreUnmappedWhenAllHaveDeregistered) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    const Memory memory(kBytes);
    auto* window = Registered(comm, memory.begin);
    const int with_one = MappedFiles();
    for (int round = 0; round < 10; ++round) {
      ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
      self.Meet();  // all have
      window = Registered(comm, memory.begin);
      EXPECT_EQ(MappedFiles(), with_one) << "round " << round;
      self.Meet();
    }
    // The last rank to deregister finds that no rank has it.
    if (self.rank() != 2) {
      ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
    }
    self.Meet();
    if (self.rank() == 2) {
      ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
      EXPECT_LT(MappedFiles(), with_one);
    }
  });
}

class WindowPointers : public ::testing::TestWithParam<bool> {};

TEST_P(WindowPointers, ReachThePeersMemory) {
  RunRanks(
      3,
      [](Rank& self) {
        const auto comm = self.Join();
        const Memory memory(kBytes);
        auto* const window = Registered(comm, memory.begin);
        constexpr std::size_t kOffset = 4096;
        for (int peer = 0; peer < self.size(); ++peer) {
          void* place = nullptr;
          ASSERT_TRUE(Ok(tuttiCommWindowPointer(comm, window, peer, kOffset * self.rank(), &place)));
          ASSERT_NE(place, nullptr);
          *static_cast<int*>(place) = 100 * self.rank() + peer;
          if (peer == self.rank()) {
            EXPECT_EQ(place, static_cast<char*>(memory.begin) + kOffset * self.rank());
          }
        }
        ASSERT_TRUE(Ok(tuttiBarrier(comm, nullptr)));
        for (int writer = 0; writer < self.size(); ++writer) {
          const auto* const place = reinterpret_cast<int*>(static_cast<char*>(memory.begin) + kOffset * writer);
          EXPECT_EQ(*place, 100 * writer + self.rank());
        }
        void* place = nullptr;
        EXPECT_TRUE(Fails(tuttiCommWindowPointer(comm, window, 3, 0, &place), tuttiInvalidArgument, {"peer is 3"}));
        EXPECT_TRUE(Fails(tuttiCommWindowPointer(comm, window, 0, kBytes, &place), tuttiInvalidArgument, {"offset"}));
        EXPECT_TRUE(Fails(tuttiCommWindowPointer(comm, window, 0, 0, nullptr), tuttiInvalidArgument, {"ptr"}));
        ASSERT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
        EXPECT_TRUE(Fails(tuttiCommWindowPointer(comm, window, 0, 0, &place), tuttiInvalidArgument, {"win"}));
      },
      {.threads = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, WindowPointers, ::testing::Bool());

TEST(Windows, HaveNoPointersToOtherHosts) {
  RunRanks(
      4,
      [](Rank& self) {
        const auto comm = self.Join();
        std::array<int, 4> hosts{};
        ASSERT_TRUE(Ok(tuttiCommHosts(comm, hosts.data())));
        EXPECT_EQ(hosts, (std::array{0, 0, 1, 1}));
        const Memory memory(kBytes);
        auto* const window = Registered(comm, memory.begin);
        for (int peer = 0; peer < self.size(); ++peer) {
          void* place = nullptr;
          ASSERT_TRUE(Ok(tuttiCommWindowPointer(comm, window, peer, 0, &place)));
          EXPECT_EQ(place != nullptr, hosts[peer] == hosts[self.rank()]) << peer;
        }
      },
      {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

}  // namespace
}  // namespace tutti::testing
