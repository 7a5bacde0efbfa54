// One-sided calls on host memory: puts into the peers' windows, signals, and waits for them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kPart = 64 * 1024;

// A rank with a window of which each rank writes one part.
class Side {
 public:
  explicit Side(Rank& self, tuttiConfig_t* config = nullptr) : self_(self), comm_(self.Join(config)) {
    const std::size_t bytes = kPart * static_cast<std::size_t>(self.size());
    EXPECT_TRUE(Ok(tuttiMemAlloc(&memory_, bytes)));
    EXPECT_TRUE(Ok(tuttiCommWindowRegister(comm_, memory_, bytes, &window_, TUTTI_WIN_DEFAULT)));
  }
  ~Side() {
    comm_.Destroy();
    EXPECT_TRUE(Ok(tuttiMemFree(memory_)));
  }

  // Puts into this rank's part of the peer's memory.
  tuttiResult_t Put(const std::vector<std::uint8_t>& data, int peer, tuttiStream_t stream = nullptr) {
    return tuttiPutSignal(data.data(), data.size(), tuttiUint8, peer, window_, kPart * self_.rank(), 0, 0, 0, comm_,
                          stream);
  }
  tuttiResult_t Signal(int peer, int index = 0, int context = 0, tuttiStream_t stream = nullptr) {
    return tuttiSignal(peer, index, context, 0, comm_, stream);
  }
  tuttiResult_t Wait(std::vector<tuttiWaitSignalDesc_t> all, tuttiStream_t stream = nullptr) {
    return tuttiWaitSignal(static_cast<int>(all.size()), all.data(), comm_, stream);
  }
  const std::uint8_t* From(int writer) const { return static_cast<const std::uint8_t*>(memory_) + kPart * writer; }
  tuttiComm_t comm() const { return comm_; }
  tuttiWindow_t window() const { return window_; }
  Comm ReleaseComm() { return Comm(comm_.Release()); }

 private:
  Rank& self_;
  Comm comm_;
  void* memory_ = nullptr;
  tuttiWindow_t window_ = nullptr;
};

std::vector<std::uint8_t> DataOf(int writer, int round, std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  std::iota(data.begin(), data.end(), static_cast<std::uint8_t>(31 * writer + 7 * round));
  return data;
}

class OneSided : public ::testing::TestWithParam<bool> {
 protected:
  static void Run(int ranks, const std::function<void(Rank&)>& body) { RunRanks(ranks, body, {.threads = GetParam()}); }
};

// Each rank puts into its right neighbour's memory, which says by a signal of its own when the place is free again.
TEST_P(OneSided, DataIsThereWhenItsSignalIs) {
  Run(3, [](Rank& self) {
    Side side(self);
    const int right = (self.rank() + 1) % self.size(), left = (self.rank() + 2) % self.size();
    constexpr int kFree = 5;
    std::mt19937 random(17);  // equal on all ranks
    for (int round = 0; round < 300; ++round) {
      const std::size_t bytes = random() % (round % 3 == 0 ? kPart : 100);
      if (round > 0) {
        ASSERT_TRUE(Ok(side.Wait({{1, right, kFree, 0}})));
      }
      ASSERT_TRUE(Ok(side.Put(DataOf(self.rank(), round, bytes), right)));
      ASSERT_TRUE(Ok(side.Wait({{1, left, 0, 0}})));
      const auto expected = DataOf(left, round, bytes);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), side.From(left))) << "round " << round;
      ASSERT_TRUE(Ok(side.Signal(left, kFree)));
    }
  });
}

// Signals never wait for their receiver, and each wait takes its own.
TEST_P(OneSided, SignalsAreCounted) {
  Run(2, [](Rank& self) {
    Side side(self);
    const int other = 1 - self.rank();
    constexpr int kMany = 1000;
    for (int i = 0; i < kMany; ++i) {
      for (int context = 0; context < TUTTI_SIGNAL_CONTEXTS; ++context) {
        for (int index = 0; index < TUTTI_SIGNALS; ++index) {
          if ((i + context + index) % 2 == 0) {
            ASSERT_TRUE(Ok(side.Signal(other, index, context)));
          }
        }
      }
    }
    for (int context = 0; context < TUTTI_SIGNAL_CONTEXTS; ++context) {
      for (int index = 0; index < TUTTI_SIGNALS; ++index) {
        ASSERT_TRUE(Ok(side.Wait({{1, other, index, context}, {kMany / 2 - 1, other, index, context}})));
      }
    }
    ASSERT_TRUE(Ok(tuttiBarrier(side.comm(), nullptr)));
  });
}

// In a group, puts go before waits, whatever their order.
TEST_P(OneSided, AGroupIsAnAllToAll) {
  Run(4, [](Rank& self) {
    Side side(self);
    for (int round = 0; round < 20; ++round) {
      const auto data = DataOf(self.rank(), round, 10'000);
      std::vector<tuttiWaitSignalDesc_t> all;
      for (int peer = 0; peer < self.size(); ++peer) all.push_back({1, peer, 0, 0});
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      EXPECT_TRUE(Ok(side.Wait(all)));
      for (int peer = 0; peer < self.size(); ++peer) EXPECT_TRUE(Ok(side.Put(data, peer)));
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
      for (int writer = 0; writer < self.size(); ++writer) {
        const auto expected = DataOf(writer, round, 10'000);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), side.From(writer))) << writer;
      }
      ASSERT_TRUE(Ok(tuttiBarrier(side.comm(), nullptr)));
    }
  });
}

TEST_P(OneSided, StreamsKeepTheOrder) {
  Run(2, [](Rank& self) {
    Side side(self);
    const int other = 1 - self.rank();
    tuttiStream_t stream = nullptr;
    ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
    std::vector<std::vector<std::uint8_t>> data;
    for (int round = 0; round < 50; ++round) data.push_back(DataOf(self.rank(), round, 3000));
    float sum = 0;
    for (const auto& each : data) {
      ASSERT_TRUE(Ok(side.Put(each, other, stream)));
      ASSERT_TRUE(Ok(side.Wait({{1, other, 0, 0}}, stream)));
      ASSERT_TRUE(Ok(tuttiAllReduce(&sum, &sum, 1, tuttiFloat, tuttiSum, side.comm(), stream)));
    }
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    const auto expected = DataOf(other, 49, 3000);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), side.From(other)));
    EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
  });
}

TEST_P(OneSided, WrongArgumentsAreRefusedAndChangeNothing) {
  Run(2, [](Rank& self) {
    Side side(self);
    const int other = 1 - self.rank();
    const auto comm = side.comm();
    const auto window = side.window();
    int value = 0;
    const auto put = [&](std::size_t count, tuttiDataType_t type, int peer, tuttiWindow_t win, std::size_t offset) {
      return tuttiPutSignal(&value, count, type, peer, win, offset, 0, 0, 0, comm, nullptr);
    };
    const auto wrong = tuttiInvalidArgument;
    EXPECT_TRUE(Fails(put(1, tuttiInt32, 2, window, 0), wrong, {"peer is 2", "ranks 0 to 1"}));
    EXPECT_TRUE(Fails(put(1, tuttiInt32, other, nullptr, 0), wrong, {"peerWin is NULL"}));
    EXPECT_TRUE(Fails(put(1, tuttiInt32, other, window, 2 * kPart - 3), wrong,
                      {"4 bytes at peerWinOffset 131069", fmt::format("rank {}'s part", other), "has 131072"}));
    EXPECT_TRUE(Fails(put(1, tuttiInt32, other, window, SIZE_MAX), wrong, {"peerWinOffset"}));
    EXPECT_TRUE(Fails(put(1, tuttiNumTypes, other, window, 0), wrong, {"datatype"}));
    EXPECT_TRUE(Fails(put(SIZE_MAX, tuttiInt32, other, window, 0), wrong, {"count"}));
    EXPECT_TRUE(
        Fails(tuttiPutSignal(nullptr, 1, tuttiInt32, other, window, 0, 0, 0, 0, comm, nullptr), wrong, {"localbuff"}));
    EXPECT_TRUE(Fails(tuttiPutSignal(&value, 1, tuttiInt32, other, window, 0, 0, 0, 1, comm, nullptr), wrong,
                      {"flags is 0x1"}));
    EXPECT_TRUE(Fails(side.Signal(other, TUTTI_SIGNALS), wrong, {"sigIdx is 8", "0 to 7"}));
    EXPECT_TRUE(Fails(side.Signal(other, 0, -1), wrong, {"ctx is -1", "0 to 3"}));
    EXPECT_TRUE(Fails(tuttiWaitSignal(0, nullptr, comm, nullptr), wrong, {"nDesc is 0"}));
    EXPECT_TRUE(Fails(tuttiWaitSignal(1, nullptr, comm, nullptr), wrong, {"signalDescs is NULL"}));
    EXPECT_TRUE(Fails(side.Wait({{1, other, 0, 0}, {0, other, 0, 0}}), wrong, {"opCnt is 0"}));
    // As any failed call, one of these fails its group.
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    EXPECT_TRUE(Ok(side.Signal(other)));
    EXPECT_TRUE(Fails(side.Signal(7), wrong, {"peer is 7"}));
    EXPECT_TRUE(Fails(tuttiGroupEnd(), wrong, {"peer is 7"}));
    // The communicator is as it was, and no signal has come.
    ASSERT_TRUE(Ok(side.Signal(other, 1)));
    ASSERT_TRUE(Ok(side.Wait({{1, other, 1, 0}})));
  });
}
INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, OneSided, ::testing::Bool());

TEST(OneSidedFaults, AWaitForADeadPeerNamesIt) {
  RunRanks(3,
           [](Rank& self) {
             Side side(self);
             self.Meet();
             if (self.rank() == 2) KillThisProcessAfter(std::chrono::microseconds(0));
             EXPECT_TRUE(Fails(side.Wait({{3, 2, 0, 0}}), tuttiRemoteError,
                               {"rank 2", "died", "wait_signal(count=3, from rank 2)"}));
             // Nothing more begins, as after any other failure.
             EXPECT_TRUE(Fails(side.Signal(0), tuttiRemoteError, {"rank 2"}));
           },
           {.may_die = {2}});
}

// The other ranks do not matter to the wait.
TEST(OneSidedFaults, AWaitDoesNotMindTheEndOfAnotherRank) {
  RunRanks(3,
           [](Rank& self) {
             Side side(self);
             self.Meet();
             if (self.rank() == 2) KillThisProcessAfter(std::chrono::microseconds(0));
             if (self.rank() == 1) {
               std::this_thread::sleep_for(std::chrono::milliseconds(700));  // longer than a death is looked for
               EXPECT_TRUE(Ok(side.Signal(0)));
             } else {
               EXPECT_TRUE(Ok(side.Wait({{1, 1, 0, 0}})));
             }
           },
           {.may_die = {2}});
}

TEST(OneSidedFaults, AWaitForAPeerThatLeavesOrStopsEnds) {
  for (const bool aborts : {false, true}) {
    RunRanks(2, [&](Rank& self) {
      Side side(self);
      if (self.rank() == 0) {
        EXPECT_TRUE(Fails(side.Wait({{1, 1, 0, 0}}), tuttiRemoteError,
                          {"rank 1", aborts ? "aborted the communicator" : "destroyed its communicator"}));
        return;
      }
      if (aborts) {
        EXPECT_TRUE(Ok(tuttiCommAbort(side.ReleaseComm().Release())));
      } else {
        side.ReleaseComm().Destroy();
      }
    });
  }
}

// What was sent before counts.
TEST(OneSidedFaults, SignalsOfAPeerThatHasLeftCanBeTaken) {
  RunRanks(2, [](Rank& self) {
    Side side(self);
    const auto data = DataOf(self.rank(), 0, 100);
    if (self.rank() == 1) {
      EXPECT_TRUE(Ok(side.Put(data, 0)));
      side.ReleaseComm().Destroy();
    }
    self.Meet();
    if (self.rank() == 1) return;
    ASSERT_TRUE(Ok(side.Wait({{1, 1, 0, 0}})));
    const auto expected = DataOf(1, 0, 100);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), side.From(1)));
  });
}

TEST(OneSidedFaults, ASignalThatNeverComesTimesOut) {
  RunRanks(2, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.operationTimeoutMs = 300;
    Side side(self, &config);
    if (self.rank() == 0) {
      EXPECT_TRUE(Fails(side.Wait({{2, 1, 3, 0}}), tuttiTimeoutError,
                        {"nothing moved for 300 ms", "wait_signal(count=2, from rank 1)", "waits for rank 1"}));
    }
    self.Meet();
  });
}

// Each waits for the next one.
TEST(OneSidedFaults, WaitsForEachOtherAreNamed) {
  for (const int ranks : {2, 3}) {
    RunRanks(ranks, [](Rank& self) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.operationTimeoutMs = 500;
      Side side(self, &config);
      self.Meet();
      const int next = (self.rank() + 1) % self.size();
      EXPECT_NE(side.Wait({{1, next, 0, 0}}), tuttiSuccess);
      const std::string message = tuttiGetLastError(nullptr);
      EXPECT_NE(message.find("they wait for each other's signals"), std::string::npos) << message;
      for (int r = 0; r < self.size(); ++r) {
        const auto wait = fmt::format("wait_signal(count=1, from rank {})", r);
        EXPECT_NE(message.find(wait), std::string::npos) << message;
      }
      self.Meet();
    });
  }
}

TEST(OneSidedFaults, PeersOnOtherHostsAreRefused) {
  RunRanks(4,
           [](Rank& self) {
             Side side(self);
             const int here = self.rank() ^ 1, elsewhere = self.rank() ^ 2;
             const std::string peer = fmt::format("peer {} is on another host", elsewhere);
             EXPECT_TRUE(Fails(side.Put(DataOf(0, 0, 10), elsewhere), tuttiInvalidUsage, {peer, "tuttiSend"}));
             EXPECT_TRUE(Fails(side.Signal(elsewhere), tuttiInvalidUsage, {peer}));
             EXPECT_TRUE(Fails(side.Wait({{1, elsewhere, 0, 0}}), tuttiInvalidUsage, {peer}));
             ASSERT_TRUE(Ok(side.Put(DataOf(self.rank(), 0, 10), here)));
             ASSERT_TRUE(Ok(side.Wait({{1, here, 0, 0}})));
           },
           {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

}  // namespace
}  // namespace tutti::testing
