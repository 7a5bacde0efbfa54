// Operations that cannot end: each gives a clear error, and no kernel keeps running.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "testing/device_rank.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

// The calls returned long ago, so the communicator reports what went wrong.
tuttiResult_t AsyncError(tuttiComm_t comm) {
  constexpr auto kLimit = std::chrono::seconds(20);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  tuttiResult_t error = tuttiSuccess;
  while (error == tuttiSuccess && std::chrono::steady_clock::now() < deadline) {
    if (tuttiCommGetAsyncError(comm, &error) != tuttiSuccess) return tuttiInternalError;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return error;
}

TEST_F(Device, CallsThatDoNotMatchAreNamed) {
  for (const bool threads : {false, true}) {
    for (const std::size_t count : {8, 100'000}) {
      RunRanks(
          2,
          [&](Rank& self) {
            DeviceRank rank(self, 512 * KiB);
            ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
            ExpectMismatch(rank, self.rank() == 0 ? count : count - 1, count, count - 1);
          },
          {.threads = threads});
    }
  }
}

// With TUTTI_HOLD, as on libnccl.so.2, a stream stands still behind a call that has failed, so nothing reads what is no
// result. An abort, a revoke or the end of the communicator lets it go on.
TEST_F(Device, AFailedCallHoldsItsStreamUntilTheEnd) {
  enum class End { abort, revoke, destroy };
  for (const auto end : {End::abort, End::revoke, End::destroy}) {
    SCOPED_TRACE(static_cast<int>(end));
    RunRanks(2,
             [&](Rank& self) {
               DeviceRank rank(self, 64 * KiB);
               ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
               if (self.rank() == 1) {
                 std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the other has enqueued its call
                 KillThisProcessAfter(std::chrono::microseconds(0));
               }
               EXPECT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                             rank.comm(), rank.stream())));
               EXPECT_EQ(AsyncError(rank.comm()), tuttiRemoteError);
               constexpr auto kLong = std::chrono::milliseconds(300);  // for a kernel to see that it is to stop
               std::this_thread::sleep_for(kLong);
               EXPECT_TRUE(rank.gpu().Busy(rank.stream()));
               const auto ended = end == End::revoke  ? tuttiCommRevoke(rank.comm(), TUTTI_REVOKE_DEFAULT)
                                  : end == End::abort ? tuttiCommAbort(rank.ReleaseComm())
                                                      : tuttiCommDestroy(rank.ReleaseComm());
               EXPECT_TRUE(Ok(ended));
               EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
             },
             {.environment = {{"TUTTI_HOLD", "1"}}, .may_die = {1}});
  }
}

// Captured calls are compared when they run, because the host does not see a replay.
TEST_F(Device, CapturedCallsThatDoNotMatchAreNamed) {
  RunRanks(2, [](Rank& self) {
    DeviceRank rank(self, 64 * KiB);
    const std::size_t count = self.rank() == 0 ? 100 : 99;
    rank.gpu().BeginCapture(rank.stream());
    EXPECT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), count, tuttiFloat, tuttiSum, rank.comm(),
                                  rank.stream())));
    auto* const graph = rank.gpu().EndCapture(rank.stream());
    rank.gpu().LaunchGraph(graph, rank.stream());
    EXPECT_EQ(AsyncError(rank.comm()), tuttiInvalidUsage);
    EXPECT_TRUE(
        Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiInvalidUsage, {"do not match", "count=100", "count=99"}));
    const std::string message = tuttiGetLastError(nullptr);
    EXPECT_NE(message.find(" at "), message.rfind(" at ")) << "the sites of both calls are named: " << message;
    EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the graph has ended";
  });
}

// Kernels that only send wait for no other rank. The watch reports the disagreement without another call, even after
// the replay of a graph, which the host does not see. The next collective also reports it, from its slots.
TEST_F(Device, RootsThatDisagreeAreNamed) {
  enum class Then { nothing, replay, collective };
  for (const auto then : {Then::nothing, Then::replay, Then::collective}) {
    for (const bool threads : {false, true}) {
      if (threads && then == Then::replay) continue;  // ranks launched together share one graph
      SCOPED_TRACE(fmt::format("{}, {}", static_cast<int>(then), threads ? "threads" : "processes"));
      RunRanks(2,
               [&](Rank& self) {
                 DeviceRank rank(self, 64 * KiB);
                 ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
                 const auto broadcast = [&] {
                   return tuttiBroadcast(rank.arena().send(), rank.arena().receive(), 10, tuttiFloat, self.rank(),
                                         rank.comm(), rank.stream());
                 };
                 if (then == Then::replay) {
                   rank.gpu().BeginCapture(rank.stream());
                   EXPECT_TRUE(Ok(broadcast()));
                   auto* const graph = rank.gpu().EndCapture(rank.stream());
                   for (int i = 0; i < 3; ++i) rank.gpu().LaunchGraph(graph, rank.stream());
                 } else {
                   EXPECT_TRUE(Ok(broadcast()));
                 }
                 if (then == Then::collective) {
                   const auto result = tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat,
                                                      tuttiSum, rank.comm(), rank.stream());
                   EXPECT_TRUE(result == tuttiSuccess || result == tuttiInvalidUsage);
                   EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
                 }
                 EXPECT_EQ(AsyncError(rank.comm()), tuttiInvalidUsage);
                 EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiInvalidUsage,
                                   {"do not match", "broadcast(count=10", "root=0", "root=1", "rank 0 ", "rank 1 "}));
                 self.Meet();
               },
               {.threads = threads});
    }
  }
}

// With TUTTI_CHECK, a barrier is enqueued after the call and finds the disagreement.
TEST_F(Device, RootsThatDisagreeAreNamedByTheCallOnRequest) {
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB);
             const auto broadcast = [&](int root) {
               return tuttiBroadcast(rank.arena().send(), rank.arena().receive(), 10, tuttiFloat, root, rank.comm(),
                                     rank.stream());
             };
             EXPECT_TRUE(Ok(broadcast(1)));
             EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
             EXPECT_TRUE(Ok(broadcast(self.rank())));
             EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
             tuttiResult_t told = tuttiSuccess;
             EXPECT_TRUE(Ok(tuttiCommGetAsyncError(rank.comm(), &told)));
             EXPECT_EQ(told, tuttiInvalidUsage);
             self.Meet();
           },
           {.environment = {{"TUTTI_CHECK", "1"}}});
}

TEST_F(Device, ADeadRankIsNamed) {
  RunRanks(3,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB);
             ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
             self.Meet();  // the call must end first: data to another host may be lost with its process
             if (self.rank() == 1) {
               KillThisProcessAfter(std::chrono::microseconds(0));
               std::this_thread::sleep_for(std::chrono::seconds(30));
             }
             ASSERT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                           rank.comm(), rank.stream())));
             EXPECT_EQ(AsyncError(rank.comm()), tuttiRemoteError);
             EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiRemoteError, {"rank 1 (", "while rank"}));
             EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
           },
           {.may_die = {1}});
}

// In shared memory, this rank stores the address and length of each buffer that it registered, side by side. Replaces
// the length of `buffer` by `told`. Returns how many such entries it found.
int LieAboutRegistered(const std::byte* buffer, std::uint64_t bytes, std::uint64_t told) {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (line.find("tutti-registered") == std::string::npos || line.find("rw-s") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    for (auto* word = reinterpret_cast<std::uint64_t*>(begin); word + 1 < reinterpret_cast<std::uint64_t*>(end);
         ++word) {
      if (word[0] != reinterpret_cast<std::uint64_t>(buffer) || word[1] != bytes) continue;
      word[1] = told;
      ++found;
    }
  }
  return found;
}

// A slot refers to memory that the sender did not register, but that the reader's GPU has mapped.
TEST_F(Device, ReferencesBeyondWhatWasGivenAreRefused) {
  const char* const hosts = std::getenv("TUTTI_VIRTUAL_HOSTS");
  if (hosts != nullptr) GTEST_SKIP() << "no slot refers to memory of another host";
  RunRanks(2,
           [](Rank& self) {
             constexpr std::size_t kSent = 64 * KiB, kAll = 4 * kSent;
             // The ranks' entries lie in the same memory, and their buffers may have the same address, so the lengths
             // must differ.
             const std::size_t given = self.rank() == 0 ? 2 * kSent : kSent;
             DeviceRank rank(self, kAll, "direct");
             auto* const buffer = rank.gpu().Allocate(kAll);
             void* handle = nullptr;
             ASSERT_TRUE(Ok(tuttiCommRegister(rank.comm(), buffer, given, &handle)));
             ASSERT_NE(handle, nullptr);
             const auto reduce = [&](std::byte* from) {
               return tuttiAllReduce(from, rank.arena().receive(), kSent / sizeof(float), tuttiFloat, tuttiSum,
                                     rank.comm(), rank.stream());
             };
             for (int call = 0; call < 3; ++call) {  // until both have opened the other's registered buffer
               ASSERT_TRUE(Ok(reduce(buffer)));
               ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
               self.Meet();
             }
             const bool liar = self.rank() == 1;
             if (liar) {
               ASSERT_EQ(LieAboutRegistered(buffer, given, kAll), 1);
             }
             const auto result = reduce(liar ? buffer + kAll / 2 : buffer);
             EXPECT_TRUE(result == tuttiSuccess || result == tuttiRemoteError);
             EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
             EXPECT_EQ(AsyncError(rank.comm()), tuttiRemoteError);
             EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiRemoteError,
                               {"rank 1 (", "rank 0 (", "memory that the sender may not use"}));
             self.Meet();
             rank.gpu().Free(buffer);
           },
           {.environment = {{"TUTTI_PROTO", "bulk"}}});
}

// If a registered buffer claims to be longer than its allocation, it is not opened: slots carry the data.
TEST_F(Device, RegisteredMemoryThatIsNotThereIsNotOpened) {
  RunRanks(2, [](Rank& self) {
    constexpr std::size_t kGiven = 64 * KiB;
    DeviceRank rank(self, kGiven);
    const Case sum{What::all_reduce, tuttiFloat32, tuttiSum, kGiven / sizeof(float) / 2, 0, false, 1};
    if (self.rank() == 1) {
      void* handle = nullptr;
      ASSERT_TRUE(Ok(tuttiCommRegister(rank.comm(), rank.arena().send(), kGiven, &handle)));
      ASSERT_EQ(LieAboutRegistered(rank.arena().send(), kGiven, std::uint64_t{1} << 40), 1);
    }
    self.Meet();
    for (int call = 0; call < 3; ++call) ASSERT_EQ(rank.Run(sum), "");
  });
}

TEST_F(Device, ARankThatNeverComesIsATimeout) {
  for (const bool threads : {false, true}) {
    RunRanks(2,
             [&](Rank& self) {
               DeviceRank rank(self, 64 * KiB);
               if (self.rank() == 0) {
                 auto result = tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                              rank.comm(), rank.stream());
                 if (result == tuttiSuccess) result = AsyncError(rank.comm());
                 EXPECT_EQ(result, tuttiTimeoutError);
               }
               self.Meet();
             },
             {.threads = threads, .environment = {{"TUTTI_TIMEOUT_MS", "300"}}});
  }
}

TEST_F(Device, AbortEndsTheKernels) {
  RunRanks(3, [](Rank& self) {
    DeviceRank rank(self, 64 * KiB);
    if (self.rank() < 2) {  // the third never comes
      ASSERT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum, rank.comm(),
                                    rank.stream())));
    }
    if (self.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_TRUE(Ok(tuttiCommAbort(rank.ReleaseComm())));
    }
    if (self.rank() == 1) {
      EXPECT_EQ(AsyncError(rank.comm()), tuttiRemoteError);
      EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiRemoteError, {"rank 0", "aborted"}));
    }
    EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::testing
