// One-sided calls on GPU memory: put in stream order, in graphs, and when a peer is gone.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "testing/device_rank.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kCount = 5000;
constexpr std::size_t kBytes = kCount * sizeof(float);

class DeviceOneSided : public Device, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    Device::SetUp();
    if (std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "one-sided calls reach ranks of one host";
  }
};

// A rank whose peer writes the second half of its window; the first half is what it puts itself.
class Side {
 public:
  explicit Side(Rank& self) : other_(1 - self.rank()), rank_(self, kBytes) {
    EXPECT_TRUE(Ok(tuttiMemAlloc(&memory_, 2 * kBytes)));
    EXPECT_TRUE(Ok(tuttiCommWindowRegister(rank_.comm(), memory_, 2 * kBytes, &window_, TUTTI_WIN_DEFAULT)));
  }
  ~Side() {
    EXPECT_TRUE(Ok(Synchronize()));
    EXPECT_TRUE(Ok(tuttiMemFree(memory_)));
  }

  DeviceRank& rank() { return rank_; }
  Gpu& gpu() { return rank_.gpu(); }
  std::byte* own() { return static_cast<std::byte*>(memory_); }
  std::byte* theirs() { return own() + kBytes; }
  void Fill(float value) {
    const std::vector<float> values(kCount, value);
    gpu().Put(own(), values.data(), kBytes);
  }
  float Last() {
    float last = 0;
    gpu().Get(&last, theirs() + kBytes - sizeof last, sizeof last);
    return last;
  }
  tuttiResult_t Put() {
    return tuttiPutSignal(own(), kCount, tuttiFloat, other_, window_, kBytes, 0, 0, 0, rank_.comm(), rank_.stream());
  }
  tuttiResult_t Signal(int index) { return tuttiSignal(other_, index, 0, 0, rank_.comm(), rank_.stream()); }
  tuttiResult_t Wait(int count, int index = 0) {
    tuttiWaitSignalDesc_t wanted{count, other_, index, 0};
    return tuttiWaitSignal(1, &wanted, rank_.comm(), rank_.stream());
  }
  tuttiResult_t Synchronize() { return gpu().Synchronize(rank_.stream()); }

 private:
  int other_;
  DeviceRank rank_;
  void* memory_ = nullptr;
  tuttiWindow_t window_ = nullptr;
};

TEST_P(DeviceOneSided, DataIsThereWhenItsSignalIs) {
  RunRanks(2,
           [](Rank& self) {
             Side side(self);
             constexpr int kFree = 1;
             for (int round = 0; round < 20; ++round) {
               side.Fill(static_cast<float>(100 * round + self.rank()));
               if (round > 0) {
                 ASSERT_TRUE(Ok(side.Wait(1, kFree)));
               }
               ASSERT_TRUE(Ok(side.Put()));
               ASSERT_TRUE(Ok(side.Wait(1)));
               ASSERT_TRUE(Ok(side.Synchronize()));
               ASSERT_EQ(side.Last(), static_cast<float>(100 * round + 1 - self.rank()));
               ASSERT_TRUE(Ok(side.Signal(kFree)));
               ASSERT_TRUE(Ok(tuttiBarrier(side.rank().comm(), side.rank().stream())));
             }
           },
           {.threads = GetParam()});
}

// Signals do not wait for their receiver; more of them than one launch holds.
TEST_P(DeviceOneSided, SignalsAreCounted) {
  RunRanks(2,
           [](Rank& self) {
             Side side(self);
             constexpr int kMany = 150;
             ASSERT_TRUE(Ok(tuttiGroupStart()));
             for (int i = 0; i < kMany; ++i) EXPECT_TRUE(Ok(side.Signal(i % 3)));
             ASSERT_TRUE(Ok(tuttiGroupEnd()));
             for (int index = 0; index < 3; ++index) {
               ASSERT_TRUE(Ok(side.Wait(1, index)));
               ASSERT_TRUE(Ok(side.Wait(kMany / 3 - 1, index)));
             }
             ASSERT_TRUE(Ok(side.Synchronize()));
           },
           {.threads = GetParam()});
}

// In a group, puts go before the wait, and the wait after the collective.
TEST_P(DeviceOneSided, AGroupMayWaitForItsOwnPuts) {
  RunRanks(2,
           [](Rank& self) {
             Side side(self);
             side.Fill(static_cast<float>(7 + self.rank()));
             ASSERT_TRUE(Ok(tuttiGroupStart()));
             EXPECT_TRUE(Ok(side.Wait(2)));
             EXPECT_TRUE(Ok(tuttiAllReduce(side.rank().arena().send(), side.rank().arena().receive(), 100, tuttiFloat,
                                           tuttiSum, side.rank().comm(), side.rank().stream())));
             EXPECT_TRUE(Ok(side.Put()));
             EXPECT_TRUE(Ok(side.Signal(0)));
             ASSERT_TRUE(Ok(tuttiGroupEnd()));
             ASSERT_TRUE(Ok(side.Synchronize()));
             EXPECT_EQ(side.Last(), static_cast<float>(8 - self.rank()));
           },
           {.threads = GetParam()});
}

// A captured graph is replayed, between calls that are not captured.
TEST_P(DeviceOneSided, GraphsMayBeReplayed) {
  RunRanks(2,
           [](Rank& self) {
             Side side(self);
             constexpr int kFree = 1;
             ASSERT_TRUE(Ok(side.Signal(kFree)));
             side.gpu().BeginCapture(side.rank().stream());
             ASSERT_TRUE(Ok(side.Wait(1, kFree)));
             ASSERT_TRUE(Ok(side.Put()));
             ASSERT_TRUE(Ok(side.Wait(1)));
             ASSERT_TRUE(Ok(side.Signal(kFree)));
             auto* const graph = side.gpu().EndCapture(side.rank().stream());
             for (int round = 0; round < 6; ++round) {
               side.Fill(static_cast<float>(10 * round + self.rank()));
               self.Meet();  // both have filled
               if (round % 3 == 2) {
                 ASSERT_TRUE(Ok(side.Wait(1, kFree)));
                 ASSERT_TRUE(Ok(side.Put()));
                 ASSERT_TRUE(Ok(side.Wait(1)));
                 ASSERT_TRUE(Ok(side.Signal(kFree)));
               } else {
                 side.gpu().LaunchGraph(graph, side.rank().stream());
               }
               ASSERT_TRUE(Ok(side.Synchronize()));
               ASSERT_EQ(side.Last(), static_cast<float>(10 * round + 1 - self.rank())) << "round " << round;
               self.Meet();  // both have read
             }
           },
           {.threads = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, DeviceOneSided, ::testing::Bool());

TEST_F(Device, AWaitForASignalOfADeadRankEnds) {
  if (std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "one-sided calls reach ranks of one host";
  RunRanks(2,
           [](Rank& self) {
             Side side(self);
             ASSERT_TRUE(Ok(side.Signal(0)));
             ASSERT_TRUE(Ok(side.Wait(1)));
             ASSERT_TRUE(Ok(side.Synchronize()));
             self.Meet();
             if (self.rank() == 1) KillThisProcessAfter(std::chrono::microseconds(0));
             ASSERT_TRUE(Ok(side.Wait(2, 3)));
             EXPECT_TRUE(Ok(side.Synchronize())) << "the kernel has ended";
             tuttiResult_t error = tuttiSuccess;
             EXPECT_TRUE(Ok(tuttiCommGetAsyncError(side.rank().comm(), &error)));
             EXPECT_EQ(error, tuttiRemoteError);
             EXPECT_TRUE(Fails(side.Signal(0), tuttiRemoteError, {"rank 1", "wait_signal(count=2, from rank 1)"}));
           },
           {.may_die = {1}});
}

// An abort ends the wait, and the memory of the communicator may go at once.
TEST_F(Device, AnAbortEndsAWaitForASignal) {
  if (std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "one-sided calls reach ranks of one host";
  for (const char* const hold : {"0", "1"}) {
    RunRanks(2,
             [](Rank& self) {
               Side side(self);
               if (self.rank() == 0) {
                 ASSERT_TRUE(Ok(side.Wait(1)));
                 std::this_thread::sleep_for(std::chrono::milliseconds(50));
                 EXPECT_TRUE(side.gpu().Busy(side.rank().stream()));
               }
               self.Meet();
               EXPECT_TRUE(Ok(tuttiCommAbort(side.rank().ReleaseComm())));
               EXPECT_TRUE(Ok(side.Synchronize()));
             },
             {.environment = {{"TUTTI_HOLD", hold}}});
  }
}

TEST_F(Device, OneSidedCallsTakeTheDevicesMemoryAndStreams) {
  if (std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "one-sided calls reach ranks of one host";
  RunRanks(2, [](Rank& self) {
    Side side(self);
    tuttiStream_t stream = nullptr;
    ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
    EXPECT_TRUE(Fails(tuttiSignal(1 - self.rank(), 0, 0, 0, side.rank().comm(), stream), tuttiInvalidArgument,
                      {"stream", "run on the device"}));
    EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
  });
}

}  // namespace
}  // namespace tutti::testing
