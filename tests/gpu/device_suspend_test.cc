// A communicator whose GPU memory is given back for a time.
#include <cstdlib>
#include <string>
#include <vector>

#include "testing/device_places.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

bool OnHosts() { return std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr; }

std::uint64_t Stat(tuttiComm_t comm, tuttiCommMemStat_t stat) {
  std::uint64_t value = 0;
  EXPECT_TRUE(Ok(tuttiCommMemStats(comm, stat, &value)));
  return value;
}

class DeviceSuspend : public DeviceInPlaces {};

TEST_P(DeviceSuspend, ResultsAreRightBeforeAndAfter) {
  RunRanks(
      3,
      [](Rank& self) {
        constexpr std::size_t kMost = 256 * KiB;
        DeviceRank rank(self, kMost + 4 * KiB);
        Arena windows(rank.gpu(), kMost + 4 * KiB, Arena::Kind::allocated);
        windows.Register(rank.comm());
        void* registered = nullptr;
        ASSERT_TRUE(Ok(tuttiCommRegister(rank.comm(), rank.arena().send(), kMost, &registered)));
        for (int round = 0; round < 3; ++round) {
          for (const auto& each : MixedCases(40 + static_cast<std::uint32_t>(round), kWhats, self.size(), kMost)) {
            ASSERT_EQ(rank.Run(each), "");
            ASSERT_EQ(rank.Run(each, windows), "");
          }
          ASSERT_TRUE(Ok(tuttiCommSuspend(rank.comm(), TUTTI_SUSPEND_MEM)));
          EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemSuspended), 1U);
          ASSERT_TRUE(Ok(tuttiCommResume(rank.comm())));
          EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemSuspended), 0U);
        }
        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 30'000, 0, false, 1}, windows), "");
        ASSERT_TRUE(Ok(tuttiCommDeregister(rank.comm(), registered)));
        windows.Deregister(rank.comm());
      },
      options());
}

// Physical memory is free when no process has it mapped any more.
TEST_P(DeviceSuspend, TheMemoryIsFreeMeanwhile) {
  RunRanks(
      3,
      [](Rank& self) {
        DeviceRank rank(self, 4 * KiB);
        const std::size_t free = rank.gpu().FreeBytes(), mapped = MappedOfFakeGpu();
        const auto most = Stat(rank.comm(), tuttiStatGpuMemSuspend), rest = Stat(rank.comm(), tuttiStatGpuMemPersist);
        EXPECT_GE(most, 64 * MiB);
        EXPECT_GT(rest, 0U);
        EXPECT_LT(rest, 16 * MiB);
        EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemTotal), most + rest);
        self.Meet();
        ASSERT_TRUE(Ok(tuttiCommSuspend(rank.comm(), TUTTI_SUSPEND_MEM)));
        EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemTotal), rest);
        EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemSuspend), most);
        EXPECT_GE(rank.gpu().FreeBytes(), free + most);
        if (Gpu::IsFake()) {
          EXPECT_GE(mapped, OnHosts() ? most : 2 * most);
          EXPECT_EQ(MappedOfFakeGpu(), 0U) << "neither this rank's nor that of others";
        }
        self.Meet();
        ASSERT_TRUE(Ok(tuttiCommResume(rank.comm())));
        self.Meet();
        if (Gpu::IsFake()) {
          EXPECT_EQ(rank.gpu().FreeBytes(), free);
          EXPECT_EQ(MappedOfFakeGpu(), mapped);
        }
        EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemTotal), most + rest);
        self.Meet();
      },
      options());
}

// Neither addresses nor counts change.
TEST_P(DeviceSuspend, GraphsAndSignalsStay) {
  RunRanks(
      2,
      [&](Rank& self) {
        // Ranks that are launched together are captured together, which takes one thread. A real machine has as many
        // devices as it has, whatever the fake GPU would have.
        const bool graphs = !GetParam().threads || Gpu::Count() > 1;
        DeviceRank rank(self, 4 * KiB);
        auto* const send = rank.arena().send();
        auto* const receive = rank.arena().receive();
        const int other = 1 - self.rank();
        void* memory = nullptr;
        tuttiWindow_t window = nullptr;
        ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, KiB)));
        ASSERT_TRUE(Ok(tuttiCommWindowRegister(rank.comm(), memory, KiB, &window, TUTTI_WIN_DEFAULT)));
        void *before = nullptr, *after = nullptr;
        ASSERT_TRUE(Ok(tuttiCommWindowPointer(rank.comm(), window, other, 8, &before)));
        const auto all_reduce = [&] {
          return tuttiAllReduce(send, receive, 1, tuttiFloat, tuttiSum, rank.comm(), rank.stream());
        };
        void* graph = nullptr;
        if (graphs) {
          rank.gpu().BeginCapture(rank.stream());
          ASSERT_TRUE(Ok(all_reduce()));
          ASSERT_TRUE(Ok(all_reduce()));
          graph = rank.gpu().EndCapture(rank.stream());
        }
        for (int round = 0; round < 4; ++round) {
          const auto mine = static_cast<float>(10 * round + self.rank());
          rank.gpu().Put(send, &mine, sizeof mine);
          if (graphs) {
            rank.gpu().LaunchGraph(graph, rank.stream());
          } else {
            ASSERT_TRUE(Ok(all_reduce()));
          }
          if (!OnHosts()) {
            ASSERT_TRUE(Ok(tuttiSignal(other, 0, 0, 0, rank.comm(), rank.stream())));
          }
          ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
          float sum = 0;
          rank.gpu().Get(&sum, receive, sizeof sum);
          EXPECT_EQ(sum, static_cast<float>(20 * round + 1)) << round;
          self.Meet();
          ASSERT_TRUE(Ok(tuttiCommSuspend(rank.comm(), TUTTI_SUSPEND_MEM)));
          ASSERT_TRUE(Ok(tuttiCommWindowPointer(rank.comm(), window, other, 8, &after)));
          EXPECT_EQ(before, after);
          ASSERT_TRUE(Ok(tuttiCommResume(rank.comm())));
          if (OnHosts() || round % 2 == 0) continue;
          tuttiWaitSignalDesc_t wanted{2, other, 0, 0};  // one of before the last time
          ASSERT_TRUE(Ok(tuttiWaitSignal(1, &wanted, rank.comm(), rank.stream())));
          ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
        }
        ASSERT_TRUE(Ok(tuttiCommWindowDeregister(rank.comm(), window)));
        EXPECT_TRUE(Ok(tuttiMemFree(memory)));
      },
      options());
}

TEST_P(DeviceSuspend, CallsAreRefusedMeanwhile) {
  RunRanks(
      2,
      [](Rank& self) {
        DeviceRank rank(self, 4 * KiB);
        const tuttiComm_t comm = rank.comm();
        std::vector<float> host(10);
        void* memory = nullptr;
        tuttiWindow_t window = nullptr, no_window = nullptr;
        void* handle = nullptr;
        tuttiComm_t child = nullptr;
        ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, KiB)));
        ASSERT_TRUE(Ok(tuttiCommWindowRegister(comm, memory, KiB, &window, TUTTI_WIN_DEFAULT)));
        ASSERT_TRUE(Ok(AllReduce(comm, host)));
        EXPECT_TRUE(Fails(tuttiCommResume(comm), tuttiInvalidUsage, {"not suspended"}));
        EXPECT_TRUE(Fails(tuttiCommSuspend(comm, 0), tuttiInvalidArgument, {"TUTTI_SUSPEND_MEM"}));
        ASSERT_TRUE(Ok(tuttiCommSuspend(comm, TUTTI_SUSPEND_MEM)));
        const auto refused = [](tuttiResult_t result) { return Fails(result, tuttiInvalidUsage, {"suspended"}); };
        EXPECT_TRUE(refused(tuttiCommSuspend(comm, TUTTI_SUSPEND_MEM)));
        EXPECT_TRUE(refused(AllReduce(comm, host)));
        EXPECT_TRUE(refused(
            tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 1, tuttiFloat, tuttiSum, comm, rank.stream())));
        EXPECT_TRUE(refused(tuttiBarrier(comm, rank.stream())));
        EXPECT_TRUE(refused(tuttiSignal(1 - self.rank(), 0, 0, 0, comm, rank.stream())));
        EXPECT_TRUE(refused(tuttiCommRegister(comm, rank.arena().send(), KiB, &handle)));
        EXPECT_TRUE(refused(tuttiCommWindowRegister(comm, memory, KiB, &no_window, TUTTI_WIN_DEFAULT)));
        EXPECT_TRUE(refused(tuttiCommSplit(comm, 0, 0, &child, nullptr)));
        int count = 0;
        EXPECT_TRUE(Ok(tuttiCommCount(comm, &count)));
        tuttiResult_t error = tuttiInternalError;
        EXPECT_TRUE(Ok(tuttiCommGetAsyncError(comm, &error)));
        EXPECT_EQ(error, tuttiSuccess);
        EXPECT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
        ASSERT_TRUE(Ok(tuttiCommResume(comm)));
        ASSERT_TRUE(Ok(AllReduce(comm, host)));
        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
        EXPECT_TRUE(Ok(tuttiMemFree(memory)));
      },
      options());
}

TEST_P(DeviceSuspend, ASuspendedOneMayBeDestroyedOrAborted) {
  for (const bool abort : {false, true}) {
    RunRanks(
        2,
        [&](Rank& self) {
          DeviceRank rank(self, 4 * KiB);
          ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
          ASSERT_TRUE(Ok(tuttiCommSuspend(rank.comm(), TUTTI_SUSPEND_MEM)));
          const tuttiComm_t comm = rank.ReleaseComm();
          EXPECT_TRUE(Ok(abort ? tuttiCommAbort(comm) : tuttiCommDestroy(comm)));
        },
        options());
  }
}

INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, DeviceSuspend, AllPlaces(), NameOfPlaces);

TEST_F(Device, ARankThatDiesSuspendedIsNamed) {
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 4 * KiB);
             ASSERT_TRUE(Ok(tuttiCommSuspend(rank.comm(), TUTTI_SUSPEND_MEM)));
             self.Meet();
             if (self.rank() == 1) KillThisProcessAfter(std::chrono::microseconds(0));
             EXPECT_TRUE(Fails(tuttiCommResume(rank.comm()), tuttiRemoteError, {"rank 1"}));
             EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemSuspended), 1U);
             EXPECT_TRUE(Ok(tuttiCommDestroy(rank.ReleaseComm())));
           },
           {.may_die = {1}});
}

TEST_F(Device, SuspendDoesNotMatchAnotherCall) {
  RunRanks(2, [](Rank& self) {
    DeviceRank rank(self, 4 * KiB);
    tuttiComm_t child = nullptr;
    const auto result = self.rank() == 0 ? tuttiCommSuspend(rank.comm(), TUTTI_SUSPEND_MEM)
                                         : tuttiCommSplit(rank.comm(), 0, 0, &child, nullptr);
    EXPECT_TRUE(Fails(result, tuttiInvalidUsage, {"do not match", "suspend", "split"}));
    EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemSuspended), 0U);
  });
}

// Another program may have taken the memory meanwhile.
TEST_F(Device, ResumeMayBeTriedAgain) {
  if (!fake_gpu_) GTEST_SKIP() << "takes all memory of a device";
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 4 * KiB);
             ASSERT_TRUE(Ok(tuttiCommSuspend(rank.comm(), TUTTI_SUSPEND_MEM)));
             std::byte* other = nullptr;
             if (self.rank() == 1) other = rank.gpu().Allocate(rank.gpu().FreeBytes() - MiB);
             for (int attempt = 0; attempt < 2; ++attempt) {
               EXPECT_TRUE(Fails(tuttiCommResume(rank.comm()), tuttiUnhandledCudaError,
                                 {"stays suspended", "rank 1", "KiB left"}));
               EXPECT_EQ(Stat(rank.comm(), tuttiStatGpuMemSuspended), 1U);
               EXPECT_EQ(MappedOfFakeGpu(), 0U);
             }
             if (other != nullptr) rank.gpu().Free(other);
             ASSERT_TRUE(Ok(tuttiCommResume(rank.comm())));
             ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 500, 0, false, 1}), "");
           },
           {.environment = {{"TUTTI_FAKE_GPU_MEMORY_MB", "1024"}}});
}

TEST(Suspend, WithoutADeviceHasNoEffect) {
  RunRanks(2,
           [](Rank& self) {
             const auto comm = self.Join();
             std::vector<float> data{1, 2};
             for (int round = 0; round < 3; ++round) {
               ASSERT_TRUE(Ok(tuttiCommSuspend(comm, TUTTI_SUSPEND_MEM)));
               EXPECT_EQ(Stat(comm, tuttiStatGpuMemSuspended), 0U);
               EXPECT_EQ(Stat(comm, tuttiStatGpuMemTotal), 0U);
               ASSERT_TRUE(Ok(AllReduce(comm, data)));
               ASSERT_TRUE(Ok(tuttiCommResume(comm)));
             }
             EXPECT_EQ(data[0], 8);
           },
           {.environment = {{"TUTTI_GPU", "0"}}});
}

}  // namespace
}  // namespace tutti::testing
