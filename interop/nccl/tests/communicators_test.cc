// Communicators: making, splitting, shrinking, growing, queries; memory and windows.
#include <unistd.h>

#include <array>
#include <thread>

#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

TEST(NcclCommunicators, KnowThemselves) {
  RunRanks(3, [](Rank& self) {
    const auto comm = Join(self);
    EXPECT_EQ(RankIn(comm), self.rank());
    EXPECT_EQ(SizeOf(comm), 3);
    int device = -7;
    EXPECT_TRUE(Ok(ncclCommCuDevice(comm, &device)));
    EXPECT_EQ(device, 0);
    EXPECT_EQ(Await(comm), ncclSuccess);
    EXPECT_TRUE(Ok(ncclCommFinalize(comm)));
  });
}

TEST(NcclCommunicators, MeetBySeveralIds) {
  RunRanks(2, [](Rank& self) {
    std::array<ncclUniqueId, 2> ids = {IdOf(self, 0), IdOf(self, 1)};
    Comm comm;
    ASSERT_TRUE(Ok(ncclCommInitRankScalable(comm.address(), 2, self.rank(), 2, ids.data(), nullptr)));
    EXPECT_EQ(Sum(comm, 1), 2);
  });
}

TEST(NcclCommunicators, NeedNotBlock) {
  RunRanks(2, [](Rank& self) {
    auto config = NonBlocking();
    Comm comm;
    ASSERT_EQ(ncclCommInitRankConfig(comm.address(), 2, IdOf(self), self.rank(), &config), ncclInProgress);
    ASSERT_EQ(Await(comm), ncclSuccess);
    float value = 2;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclProd, comm, nullptr), ncclInProgress);
    EXPECT_EQ(Await(comm), ncclSuccess);
    EXPECT_EQ(value, 4);
  });
}

TEST(NcclCommunicators, Split) {
  RunRanks(4, [](Rank& self) {
    const auto comm = Join(self);
    Comm half;
    ASSERT_TRUE(Ok(ncclCommSplit(comm, self.rank() % 2, -self.rank(), half.address(), nullptr)));
    EXPECT_EQ(SizeOf(half), 2);
    EXPECT_EQ(RankIn(half), self.rank() < 2 ? 1 : 0);
    Comm some;
    ASSERT_TRUE(Ok(ncclCommSplit(comm, self.rank() == 3 ? NCCL_SPLIT_NOCOLOR : 0, 0, some.address(), nullptr)));
    EXPECT_EQ(some == nullptr, self.rank() == 3);
  });
}

// Rank 1 leaves without a call, and without waiting. The new communicator inherits blocking mode from its parent.
void ShrinkWithout1(Rank& self, int blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  const auto begun = blocking != 0 ? ncclSuccess : ncclInProgress;
  Comm comm;
  ASSERT_EQ(ncclCommInitRankConfig(comm.address(), 4, IdOf(self), self.rank(), &config), begun);
  ASSERT_EQ(Await(comm), ncclSuccess);
  if (self.rank() != 1) {
    int leaver = 1;
    Comm fewer;
    ASSERT_EQ(ncclCommShrink(comm, &leaver, 1, fewer.address(), nullptr, NCCL_SHRINK_DEFAULT), begun);
    ASSERT_EQ(Await(fewer), ncclSuccess);
    EXPECT_EQ(SizeOf(fewer), 3);
    EXPECT_EQ(RankIn(fewer), self.rank() == 0 ? 0 : self.rank() - 1);
    double value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat64, ncclSum, fewer, nullptr), begun);
    EXPECT_EQ(Await(fewer), ncclSuccess);
    EXPECT_EQ(value, 3);
  }
  self.Meet();
}

TEST(NcclCommunicators, ShrinkWithoutThoseThatLeave) {
  for (const int blocking : {1, 0}) {
    RunRanks(4, [&](Rank& self) { ShrinkWithout1(self, blocking); });
  }
}

TEST(NcclCommunicators, ShrinkRefusesWhatIsNoShrinking) {
  RunRanks(2, [](Rank& self) {
    const auto comm = Join(self);
    ncclComm_t fewer = nullptr;
    const auto shrink = [&](std::vector<int> leavers, int flags) {
      return ncclCommShrink(comm, leavers.data(), static_cast<int>(leavers.size()), &fewer, nullptr, flags);
    };
    EXPECT_TRUE(Fails(shrink({self.rank()}, 0), ncclInvalidUsage, "an excluded rank must not call"));
    EXPECT_TRUE(Fails(shrink({0, 1}, 0), ncclInvalidArgument, "excludeRanksCount"));
    EXPECT_TRUE(Fails(shrink({2}, 0), ncclInvalidArgument, "excludeRanks[0]"));
    EXPECT_TRUE(Fails(shrink({1 - self.rank()}, 8), ncclInvalidArgument, "shrinkFlags"));
    EXPECT_EQ(Sum(comm, 1), 2);
  });
}

TEST(NcclCommunicators, ShrinkOfAFailedOne) {
  RunRanks(3, [](Rank& self) {
    Comm comm = Join(self);
    if (self.rank() == 2) {
      EXPECT_TRUE(Ok(ncclCommAbort(comm.Release())));
      return;
    }
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
    int leaver = 2;
    Comm fewer;
    ASSERT_TRUE(Ok(ncclCommShrink(comm, &leaver, 1, fewer.address(), nullptr, NCCL_SHRINK_ABORT)));
    EXPECT_EQ(Sum(fewer, 1), 2);
  });
}

// A caller counts on the size that it asked for. It is told who is gone, and may exclude that rank, too.
TEST(NcclCommunicators, ShrinkFailsIfItWouldLeaveOutMore) {
  RunRanks(4, [](Rank& self) {
    Comm comm = Join(self);
    if (self.rank() >= 2) {
      EXPECT_TRUE(Ok(ncclCommAbort(comm.Release())));
      return;
    }
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
    int leavers[] = {3, 2};
    Comm fewer;
    ncclComm_t none = nullptr;
    const auto result = ncclCommShrink(comm, leavers, 1, &none, nullptr, NCCL_SHRINK_ABORT);
    EXPECT_EQ(none, nullptr);
    EXPECT_TRUE(Fails(result, ncclRemoteError, "rank 2 ("));
    EXPECT_TRUE(Fails(result, ncclRemoteError, "would have 2 of the 3 ranks"));
    ASSERT_TRUE(Ok(ncclCommShrink(comm, leavers, 2, fewer.address(), nullptr, NCCL_SHRINK_ABORT)));
    EXPECT_EQ(Sum(fewer, 1), 2);
  });
}

TEST(NcclCommunicators, RevokeStopsWhatRunsAndLeavesTheRestToShrink) {
  RunRanks(3, [](Rank& self) {
    Comm comm = Join(self);
    EXPECT_TRUE(Fails(ncclCommRevoke(comm, 1), ncclInvalidArgument, "revokeFlags"));
    if (self.rank() == 2) {
      EXPECT_TRUE(Ok(ncclCommRevoke(comm, 0)));
    }
    float value = 1;
    EXPECT_TRUE(Fails(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError,
                      "revoked the communicator"));
    if (self.rank() == 1) return;
    int leaver = 1;
    Comm fewer;
    ASSERT_TRUE(Ok(ncclCommShrink(comm, &leaver, 1, fewer.address(), nullptr, NCCL_SHRINK_DEFAULT)));
    EXPECT_EQ(Sum(fewer, 1), 2);
  });
}

TEST(NcclCommunicators, GrowByThoseWhoHaveTheId) {
  constexpr int kOld = 2, kNew = 4;
  ncclUniqueId id;  // shared between the threads
  RunRanks(kNew,
           [&](Rank& self) {
             Comm comm, more;
             if (self.rank() < kOld) {
               ASSERT_TRUE(Ok(ncclCommInitRank(comm.address(), kOld, IdOf(self), self.rank())));
               if (self.rank() == 1) {  // any one old rank
                 ASSERT_TRUE(Ok(ncclCommGetUniqueId(comm, &id)));
               }
               self.Meet();
               ASSERT_TRUE(Ok(ncclCommGrow(comm, kNew, nullptr, -1, more.address(), nullptr)));
             } else {
               self.Meet();
               ASSERT_TRUE(Ok(ncclCommGrow(nullptr, kNew, &id, self.rank(), more.address(), nullptr)));
             }
             EXPECT_EQ(RankIn(more), self.rank());
             EXPECT_EQ(Sum(more, 1), kNew);
           },
           {.threads = true});
}

TEST(NcclCommunicators, GrowNeedsAnId) {
  RunRanks(2, [](Rank& self) {
    const auto comm = Join(self);
    ncclComm_t more = nullptr;
    EXPECT_TRUE(Fails(ncclCommGrow(comm, 3, nullptr, -1, &more, nullptr), ncclInvalidUsage, "unique id"));
    EXPECT_TRUE(Fails(ncclCommGrow(comm, 3, nullptr, 0, &more, nullptr), ncclInvalidArgument, "rank is 0"));
    EXPECT_TRUE(Fails(ncclCommGrow(nullptr, 3, nullptr, 2, &more, nullptr), ncclInvalidArgument, "uniqueId"));
    EXPECT_EQ(Sum(comm, 1), 2);
  });
}

struct Window {
  void* memory = nullptr;
  ncclWindow_t handle = nullptr;
};
constexpr std::size_t kWindowBytes = 8192;

// Registering waits for all ranks, and one thread has them all, so it works only in a group.
// Finalize waits for other ranks' parts only in the background.
TEST(NcclCommunicators, ANonBlockingFinalizeReturnsAtOnce) {
  RunRanks(2, [](Rank& self) {
    ncclConfig_t config = NonBlocking();
    Comm comm;
    ASSERT_EQ(ncclCommInitRankConfig(comm.address(), 2, IdOf(self), self.rank(), &config), ncclInProgress);
    ASSERT_EQ(Await(comm), ncclSuccess);
    float value = 1;
    if (self.rank() == 1) usleep(300'000);
    const auto called = tutti::testing::MonotonicNs();
    const auto queued = ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr);
    EXPECT_TRUE(queued == ncclInProgress || queued == ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    constexpr std::int64_t kSoonNs = 150'000'000;
    EXPECT_LT(tutti::testing::MonotonicNs() - called, kSoonNs);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
    EXPECT_EQ(Await(comm), ncclSuccess);
    EXPECT_EQ(value, 2);
  });
}

// A watchdog finds the failure; another thread asks for the sentence.
TEST(NcclCommunicators, TellTheLastFailureOfAnyThread) {
  RunRanks(2,
           [](Rank& self) {
             const auto comm = Join(self);
             if (self.rank() == 1) tutti::testing::KillThisProcessAfter(std::chrono::milliseconds(0));
             float value = 1;
             std::thread([&] {
               EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
             }).join();
             EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("rank 1 "), std::string::npos);
           },
           {.may_die = {1}});
}

TEST(NcclMemory, WindowsAreRegisteredInAGroup) {
  RunAlone([] {
    constexpr int kRanks = 3;
    std::array<ncclComm_t, kRanks> comms{};
    ASSERT_TRUE(Ok(ncclCommInitAll(comms.data(), kRanks, nullptr)));
    std::array<std::array<Window, 2>, kRanks> windows;
    EXPECT_TRUE(Ok(ncclGroupStart()));
    for (int i = 0; i < kRanks; ++i) {
      for (auto& window : windows[i]) {
        ASSERT_TRUE(Ok(ncclMemAlloc(&window.memory, kWindowBytes)));
        ASSERT_TRUE(Ok(ncclCommWindowRegister(comms[i], window.memory, kWindowBytes, &window.handle,
                                              NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING)));
      }
    }
    ASSERT_TRUE(Ok(ncclGroupEnd()));
    for (int i = 0; i < kRanks; ++i) {
      for (auto& window : windows[i]) {
        void* pointer = nullptr;
        EXPECT_TRUE(Ok(ncclWinGetUserPtr(comms[i], window.handle, &pointer)));
        EXPECT_EQ(pointer, window.memory);
      }
    }
    EXPECT_TRUE(Ok(ncclGroupStart()));
    for (int i = 0; i < kRanks; ++i) {
      for (auto& window : windows[i]) EXPECT_TRUE(Ok(ncclCommWindowDeregister(comms[i], window.handle)));
    }
    EXPECT_TRUE(Ok(ncclGroupEnd()));
    void* pointer = nullptr;
    EXPECT_TRUE(Fails(ncclWinGetUserPtr(comms[0], windows[0][0].handle, &pointer), ncclInvalidArgument, "win"));
    for (int i = 0; i < kRanks; ++i) {
      for (auto& window : windows[i]) EXPECT_TRUE(Ok(ncclMemFree(window.memory)));
      EXPECT_TRUE(Ok(ncclCommDestroy(comms[i])));
    }
  });
}

// A failure in a thread of the group's end is reported to the thread that called it.
TEST(NcclMemory, AGroupTellsWhatFailedInIt) {
  RunAlone([] {
    const auto good = Alone(), bad = Alone();
    Window window;
    ncclWindow_t none = nullptr;
    float plain[16];
    ASSERT_TRUE(Ok(ncclMemAlloc(&window.memory, kWindowBytes)));
    EXPECT_TRUE(Ok(ncclGroupStart()));
    EXPECT_TRUE(Ok(ncclCommWindowRegister(good, window.memory, kWindowBytes, &window.handle, NCCL_WIN_DEFAULT)));
    EXPECT_TRUE(Ok(ncclCommWindowRegister(bad, plain, sizeof plain, &none, NCCL_WIN_DEFAULT)));
    EXPECT_TRUE(Fails(ncclGroupEnd(), ncclInvalidArgument, "ncclMemAlloc"));
    EXPECT_STRNE(ncclGetLastError(bad), "");
    EXPECT_TRUE(Ok(ncclCommWindowDeregister(good, window.handle)));
    EXPECT_TRUE(Ok(ncclMemFree(window.memory)));
  });
}

TEST(NcclMemory, BuffersAreRegistered) {
  RunAlone([] {
    const auto comm = Alone();
    float data[16];
    void* handle = nullptr;
    EXPECT_TRUE(Ok(ncclCommRegister(comm, data, sizeof data, &handle)));
    EXPECT_TRUE(Ok(ncclCommDeregister(comm, handle)));
    EXPECT_TRUE(Fails(ncclCommDeregister(comm, handle), ncclInvalidUsage, "one of ncclCommRegister"));
    EXPECT_TRUE(Ok(ncclCommDeregister(comm, nullptr)));
    EXPECT_TRUE(Ok(ncclCommWindowDeregister(comm, nullptr)));
    EXPECT_TRUE(Ok(ncclMemFree(nullptr)));
  });
}

// One thread may make these calls for several ranks in a group.
TEST(NcclMemory, IsSuspendedInAGroup) {
  RunAlone([] {
    std::array<ncclComm_t, 2> comms{};
    ASSERT_TRUE(Ok(ncclCommInitAll(comms.data(), 2, nullptr)));
    const auto all = [&](auto&& call) {
      EXPECT_TRUE(Ok(ncclGroupStart()));
      for (auto* const comm : comms) EXPECT_TRUE(Ok(call(comm)));
      return ncclGroupEnd();
    };
    EXPECT_TRUE(Ok(all([](auto* comm) { return ncclCommSuspend(comm, NCCL_SUSPEND_MEM); })));
    uint64_t suspended = 7, total = 7;
    EXPECT_TRUE(Ok(ncclCommMemStats(comms[0], ncclStatGpuMemSuspended, &suspended)));
    EXPECT_TRUE(Ok(ncclCommMemStats(comms[0], ncclStatGpuMemTotal, &total)));
    EXPECT_EQ(suspended + total, 0U) << "there is no GPU";
    EXPECT_TRUE(Ok(all([](auto* comm) { return ncclCommResume(comm); })));
    // In a group, the argument is looked at in its end.
    EXPECT_TRUE(Fails(all([](auto* comm) { return ncclCommSuspend(comm, 0x02); }), ncclInvalidArgument, "flags"));
    for (auto* const comm : comms) EXPECT_TRUE(Ok(ncclCommDestroy(comm)));
  });
}

struct Properties {
  std::size_t size = sizeof(Properties);
  unsigned int magic = NCCL_API_MAGIC;
  unsigned int version = NCCL_VERSION(2, 29, 2);
  int rank = -1, nranks = -1, device = -1, nvml = -1;
  unsigned char device_api = 1, multimem = 1, gin_type = 1, unused = 1;
};

TEST(NcclCommunicators, SayThatKernelsCannotUseThem) {
  RunRanks(2, [](Rank& self) {
    const auto comm = Join(self);
    Properties properties;
    const auto query = [&] {
      return ncclCommQueryProperties(comm, reinterpret_cast<ncclCommProperties_t*>(&properties));
    };
    ASSERT_TRUE(Ok(query()));
    EXPECT_EQ(properties.rank, self.rank());
    EXPECT_EQ(properties.nranks, 2);
    EXPECT_EQ(properties.device_api + properties.multimem + properties.gin_type, 0);
    properties.size = 8;
    EXPECT_TRUE(Fails(query(), ncclInvalidArgument, "INITIALIZER"));
  });
}

}  // namespace
}  // namespace tutti::nccl::testing
