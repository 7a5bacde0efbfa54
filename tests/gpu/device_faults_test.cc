// GPU calls that are refused, and operations that cannot end: each gives a clear error, and no kernel keeps running.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "testing/device_rank.h"
#include "tests/gpu/litmus.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

TEST_F(Device, RefusesBuffersThatDoNotFit) {
  const RunOptions two_devices{.environment = {{"TUTTI_STANDIN_DEVICES", "2"}}};
  RunAlone(
      [] {
        const Gpu gpu(0);
        constexpr std::size_t kBytes = 4096;
        auto* const device = gpu.Allocate(kBytes);
        std::vector<std::byte> host(kBytes);
        const auto stream = gpu.NewStream();
        tuttiComm_t comm = nullptr, host_only = nullptr;
        tuttiUniqueId id;
        ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
        ASSERT_TRUE(Ok(tuttiCommInitRank(&comm, 1, id, 0)));
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.device = TUTTI_DEVICE_NONE;
        ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
        ASSERT_TRUE(Ok(tuttiCommInitRankConfig(&host_only, 1, id, 0, &config)));
        const auto copy = [](const void* from, void* to, tuttiComm_t by, tuttiStream_t on) {
          return tuttiAllReduce(from, to, 4, tuttiFloat, tuttiSum, by, on);
        };
        // Host memory with a null stream is an ordinary call.
        EXPECT_TRUE(Ok(copy(host.data(), host.data(), comm, nullptr)));
        EXPECT_TRUE(Ok(copy(device, device, comm, nullptr)));
        EXPECT_TRUE(Fails(copy(device, host.data(), comm, nullptr), tuttiInvalidArgument, {"both", "same kind"}));
        EXPECT_TRUE(Fails(copy(host.data(), host.data(), comm, stream), tuttiInvalidArgument,
                          {"ordinary host memory", "stream is a CUDA stream"}));
        EXPECT_TRUE(
            Fails(copy(device, device, host_only, nullptr), tuttiInvalidArgument, {"sendbuff", "host memory only"}));
        EXPECT_TRUE(Fails(copy(host.data(), host.data(), host_only, stream), tuttiInvalidArgument,
                          {"not made by tuttiStreamCreate", "no CUDA device"}));
        if (const Gpu other(1); other.ordinal() != gpu.ordinal()) {
          auto* const elsewhere = other.Allocate(kBytes);
          EXPECT_TRUE(Fails(copy(elsewhere, elsewhere, comm, stream), tuttiInvalidArgument, {"memory of device 1"}));
          other.Free(elsewhere);
        }
        const Gpu again(0);
        gpu.DestroyStream(stream);
        EXPECT_TRUE(Ok(copy(device, device, comm, nullptr))) << "still alive";
        EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
        EXPECT_TRUE(Ok(tuttiCommDestroy(host_only)));
        gpu.Free(device);
      },
      two_devices);
}

// A refused call leaves nothing behind.
TEST_F(Device, RefusesADestroyedStreamAndGoesOn) {
  if (!stand_in_) GTEST_SKIP() << "what no GPU can be told to be";
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB);
             const auto destroyed = rank.gpu().NewStream();
             rank.gpu().DestroyStream(destroyed);
             EXPECT_TRUE(Fails(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                              rank.comm(), destroyed),
                               tuttiInvalidArgument, {"was it destroyed"}));
             EXPECT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
           },
           {.threads = true});
}

TEST_F(Device, CommunicatorsAreTheHostsOnRequest) {
  RunAlone(
      [] {
        const Gpu gpu(0);
        tuttiComm_t comm = nullptr;
        ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
        int device = 0;
        EXPECT_TRUE(Ok(tuttiCommCuDevice(comm, &device)));
        EXPECT_EQ(device, TUTTI_DEVICE_NONE);
        EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
      },
      {.environment = {{"TUTTI_GPU", "0"}}});
}

// One thread launches for all ranks, and cannot name another thread's per-thread stream.
TEST_F(Device, RefusesStreamsThatOnlyTheirThreadKnows) {
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB);
             const auto per_thread = reinterpret_cast<tuttiStream_t>(2);  // cudaStreamPerThread
             EXPECT_TRUE(Fails(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                              rank.comm(), per_thread),
                               tuttiInvalidUsage, {"cudaStreamPerThread", "pass each rank a stream"}));
             EXPECT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
           },
           {.threads = true});
}

// Then the communicator serves only host memory, and says why when it gets GPU memory.
TEST_F(Device, NamesADriverThatIsTooOld) {
  if (!stand_in_) GTEST_SKIP() << "what no GPU can be told to be";
  const std::pair<std::string, std::string> versions[] = {{"11000", "supports CUDA 11.0, but 11.4"},
                                                          {"11040", "supports CUDA 11.4, but 1"}};
  for (const auto& [version, told] : versions) {
    RunAlone(
        [told = told] {
          const Gpu gpu(0);
          auto* const memory = gpu.Allocate(KiB);
          tuttiUniqueId id;
          tuttiComm_t comm = nullptr;
          ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
          ASSERT_TRUE(Ok(tuttiCommInitRank(&comm, 1, id, 0)));
          EXPECT_TRUE(Fails(tuttiAllReduce(memory, memory, 1, tuttiFloat, tuttiSum, comm, gpu.NewStream()),
                            tuttiInvalidArgument, {"no CUDA device", told}));
          EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
          gpu.Free(memory);
        },
        {.environment = {{"TUTTI_STANDIN_DRIVER", version}}});
  }
}

TEST_F(Device, NamesACardThatIsTooOld) {
  if (!stand_in_) GTEST_SKIP() << "what no GPU can be told to be";
  RunAlone(
      [] {
        const Gpu gpu(0);
        auto* const memory = gpu.Allocate(KiB);
        tuttiComm_t comm = nullptr;
        ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
        EXPECT_TRUE(Fails(tuttiAllReduce(memory, memory, 1, tuttiFloat, tuttiSum, comm, gpu.NewStream()),
                          tuttiInvalidArgument, {"compute capability is 7.5", "has code for", "and later"}));
        EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
        gpu.Free(memory);
      },
      {.environment = {{"TUTTI_STANDIN_CAPABILITY", "75"}}});
}

// Other programs may have the device's memory, or the host's.
TEST_F(Device, NamesMemoryThatIsTooSmall) {
  if (!stand_in_) GTEST_SKIP() << "what no GPU can be told to be";
  const std::pair<const char*, std::vector<const char*>> limits[] = {
      {"TUTTI_STANDIN_MEMORY_MB", {"device 0 has no", "MiB", "are free", "TUTTI_GPU=0"}},
      {"TUTTI_STANDIN_PINNED_MB", {"cannot pin", "of host memory"}}};
  for (const auto& [limit, told] : limits) {
    for (const bool threads : {true, false}) {
      RunRanks(2,
               [told = told](Rank& self) {
                 const Gpu gpu(self.rank());
                 const auto id = self.IdOf();
                 tuttiComm_t comm = nullptr;
                 const auto result = tuttiCommInitRank(&comm, self.size(), id, self.rank());
                 // Each names its own failure, or that of the other.
                 EXPECT_NE(result, tuttiSuccess);
                 for (const char* part : told) {
                   EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find(part), std::string::npos)
                       << part << " is not in: " << tuttiGetLastError(nullptr);
                 }
               },
               {.threads = threads, .environment = {{limit, "0"}}});
    }
  }
}

TEST_F(Device, NamesALostContext) {
  if (!stand_in_) GTEST_SKIP() << "it would take the machine's other programs with it";
  RunRanks(
      2,
      [](Rank& self) {
        auto owned = std::make_unique<DeviceRank>(self, 64 * KiB);
        DeviceRank& rank = *owned;
        const Case call{What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1};
        EXPECT_EQ(rank.Run(call), "");
        self.Meet();
        if (self.rank() == 0) {
          LitmusLaunch parameter{};  // without memory
          parameter.rounds = 1;
          rank.gpu().Launch("", kLitmusName, 1, 1, &parameter, rank.stream());
          EXPECT_TRUE(Fails(rank.gpu().Synchronize(rank.stream()), tuttiUnhandledCudaError, {}));
        }
        const auto result = tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                           rank.comm(), rank.stream());
        if (self.rank() != 0) return;  // its communicator is told that the other one has gone
        EXPECT_TRUE(Fails(result, tuttiUnhandledCudaError, {"context is lost", "a kernel touched", "new process"}));
        EXPECT_TRUE(Ok(tuttiCommAbort(rank.ReleaseComm())));
        // Nothing of the context can be released any more.
        static_cast<void>(owned.release());
      },
      {.threads = false, .environment = {{"TUTTI_STANDIN_APART", "1"}, {"TUTTI_TIMEOUT_MS", "5000"}}});
}

TEST_F(Device, RefusesADeviceThatIsNotThere) {
  RunAlone([] {
    const Gpu gpu(0);
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = 99;
    tuttiUniqueId id;
    tuttiComm_t comm = nullptr;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    EXPECT_TRUE(Fails(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument, {"device is 99"}));
  });
}

// If there are more blocks than the GPU holds at once, they wait for each other forever.
TEST_F(Device, RefusesMoreBlocksThanFit) {
  if (!stand_in_) GTEST_SKIP() << "what no GPU can be told to be";
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB, "ring");
             EXPECT_TRUE(Fails(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 10'000, tuttiFloat, tuttiSum,
                                              rank.comm(), rank.stream()),
                               tuttiInvalidUsage, {"thread blocks at the same time", "TUTTI_CHANNELS"}));
           },
           {.threads = true, .environment = {{"TUTTI_STANDIN_SMS", "1"}, {"TUTTI_CHANNELS", "8"}}});
}

// ---------------------------------------------------------------------------------------------------- faults --

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
            const auto elements = self.rank() == 0 ? count : count - 1;
            const auto result = tuttiAllReduce(rank.arena().send(), rank.arena().receive(), elements, tuttiFloat,
                                               tuttiSum, rank.comm(), rank.stream());
            // A program that waits and then asks once gets the error, even if kernels stop before any thread knows why.
            EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
            tuttiResult_t told = tuttiSuccess;
            EXPECT_TRUE(Ok(tuttiCommGetAsyncError(rank.comm(), &told)));
            EXPECT_EQ(result == tuttiSuccess ? told : result, tuttiInvalidUsage);
            // Any further call reports it, too.
            EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiInvalidUsage,
                              {"do not match", fmt::format("count={}", count), fmt::format("count={}", count - 1)}));
          },
          {.threads = threads});
    }
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

// Ranks that are launched together cannot be partly in a graph.
TEST_F(Device, RefusesACaptureOfSomeRanks) {
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB);
             const bool captures = self.rank() == 0;
             if (captures) rank.gpu().BeginCapture(rank.stream());
             EXPECT_TRUE(Fails(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                              rank.comm(), rank.stream()),
                               tuttiInvalidUsage, {"not captured into one graph"}));
             if (captures) rank.gpu().EndCapture(rank.stream());
             EXPECT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
           },
           {.threads = true});
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
