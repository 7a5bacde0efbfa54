// Collectives on memory of a GPU: a real one, or its stand-in, on which the kernels' very source runs as threads.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include "tests/collective_case.h"
#include "tests/elements.h"
#include "tests/gpu.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

struct Surroundings {
  int ranks;
  std::string algorithm;  // empty: the selector's choice
  bool threads;
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// A rank with a GPU, a communicator on it, a stream, and buffers.
class DeviceRank {
 public:
  DeviceRank(Rank& self, std::size_t most_bytes, const std::string& algorithm = "")
      : self_(self), gpu_(self.rank()), stream_(gpu_.NewStream()), arena_(gpu_, most_bytes) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    if (!algorithm.empty()) config.algorithm = algorithm.c_str();
    comm_ = self.Join(&config);
    int device = TUTTI_DEVICE_NONE;
    EXPECT_TRUE(Ok(tuttiCommCuDevice(comm_, &device)));
    EXPECT_EQ(device, gpu_.ordinal());
  }
  ~DeviceRank() {
    comm_.Destroy();
    gpu_.DestroyStream(stream_);
  }

  std::string Run(const Case& each) { return Run(each, arena_); }
  std::string Run(const Case& each, Arena& arena) {
    return RunCase(each, self_.rank(), self_.size(), comm_, stream_, arena,
                   [&](tuttiStream_t stream) { return gpu_.Synchronize(stream); });
  }
  Gpu& gpu() { return gpu_; }
  tuttiStream_t stream() const { return stream_; }
  tuttiComm_t comm() const { return comm_; }
  tuttiComm_t ReleaseComm() { return comm_.Release(); }
  Arena& arena() { return arena_; }

 private:
  Rank& self_;
  Gpu gpu_;
  tuttiStream_t stream_;
  Arena arena_;
  Comm comm_;
};

// No test without a driver. Asked in a process of its own: this one is to be forked, and a driver does not like that.
class Device : public ::testing::Test {
 protected:
  void SetUp() override {
    bool exists = false;
    const auto outcome = RunRanks(1, [&](Rank& self) { self.Note(Gpu::Exists() ? "yes" : "no"); });
    exists = outcome.front().notes == std::vector<std::string>{"yes"};
    if (!exists) GTEST_SKIP() << "there is neither a GPU nor its stand-in";
  }
};

void RunCases(const Surroundings& around, const std::vector<Case>& cases, std::size_t most_bytes) {
  RunOptions options;
  options.threads = around.threads;
  options.environment = around.environment;
  SCOPED_TRACE(fmt::format("{} ranks as {}, algorithm \"{}\"", around.ranks, around.threads ? "threads" : "processes",
                           around.algorithm));
  RunRanks(
      around.ranks,
      [&](Rank& self) {
        DeviceRank rank(self, most_bytes + 4 * KiB, around.algorithm);
        for (const auto& each : cases) ASSERT_EQ(rank.Run(each), "");
      },
      options);
}

class DeviceCollectives : public Device, public ::testing::WithParamInterface<std::tuple<int, const char*>> {
 protected:
  static void Run(bool threads) {
    const Surroundings around{std::get<0>(GetParam()), std::get<1>(GetParam()), threads};
    const auto seed = static_cast<std::uint32_t>(around.ranks * 131 + (threads ? 7 : 0) + around.algorithm.size());
    constexpr std::size_t kMost = 256 * KiB;
    RunCases(around, MixedCases(seed, 4 * kWhats, around.ranks, kMost), kMost);
  }
};

TEST_P(DeviceCollectives, OfThreads) { Run(true); }
TEST_P(DeviceCollectives, OfProcesses) { Run(false); }

INSTANTIATE_TEST_SUITE_P(All, DeviceCollectives,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values("", "direct", "two_shot", "ring", "double_binary_tree",
                                                              "recursive", "bruck", "binomial", "grouped")),
                         [](const auto& info) {
                           const std::string algorithm = std::get<1>(info.param);
                           return fmt::format("{}_ranks_{}", std::get<0>(info.param),
                                              algorithm.empty() ? "chosen" : algorithm);
                         });

// Every type and operator, through packets, vectors and odd ends.
TEST_F(Device, EveryTypeAndOperator) {
  std::vector<Case> cases;
  for (int type = 0; type < tuttiNumTypes; ++type) {
    for (int op = 0; op < tuttiNumOps; ++op) {
      for (const std::size_t count : {1, 13, 4096, 5001, 40'003}) {
        const auto seed = static_cast<std::uint32_t>(cases.size() * 7919);
        cases.push_back({What::all_reduce, static_cast<tuttiDataType_t>(type), static_cast<tuttiRedOp_t>(op), count, 0,
                         seed % 3 == 0, seed});
      }
    }
  }
  RunCases({2, "", true}, cases, 512 * KiB);
  RunCases({3, "ring", false, {{"TUTTI_ZERO_COPY", "0"}}}, cases, 512 * KiB);
}

// GPUs that cannot reach each other's memory meet in the host's.
TEST_F(Device, ThroughHostMemory) {
  const auto cases = MixedCases(11, 3 * kWhats, 4, 256 * KiB);
  const std::vector<std::pair<std::string, std::string>> apart = {{"TUTTI_STANDIN_DEVICES", "2"},
                                                                  {"TUTTI_STANDIN_PEERS", "0"}};
  RunCases({4, "", true, apart}, cases, 256 * KiB);
  RunCases({4, "", false, apart}, cases, 256 * KiB);
}

TEST_F(Device, OnSeveralDevices) {
  const auto cases = MixedCases(12, 3 * kWhats, 4, 256 * KiB);
  const std::vector<std::pair<std::string, std::string>> several = {{"TUTTI_STANDIN_DEVICES", "4"}};
  RunCases({4, "", true, several}, cases, 256 * KiB);
  RunCases({4, "", false, several}, cases, 256 * KiB);
}

// tuttiMemAlloc's memory in windows, between processes: read where it lies.
TEST_F(Device, Windows) {
  RunRanks(4, [](Rank& self) {
    DeviceRank rank(self, KiB);
    constexpr std::size_t kMost = 256 * KiB;
    Arena arena(Arena::Kind::allocated, kMost + 4 * KiB);
    arena.Register(rank.comm());
    for (const auto& each : MixedCases(13, 3 * kWhats, self.size(), kMost)) ASSERT_EQ(rank.Run(each, arena), "");
    // The host's memory has windows, too; but not one of both kinds.
    std::vector<std::byte> host(KiB);
    tuttiWindow_t window = nullptr;
    void* const mixed = self.rank() == 0 ? static_cast<void*>(host.data()) : arena.send();
    EXPECT_TRUE(Fails(tuttiCommWindowRegister(rank.comm(), mixed, KiB, &window, TUTTI_WIN_DEFAULT),
                      tuttiInvalidArgument, {"host memory on rank 0", "GPU memory on rank 1"}));
    arena.Deregister(rank.comm());
    ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 30'000, 0, false, 1}, arena), "");
  });
}

// Memory that each rank registers for itself, some late and some never: the results are the same.
TEST_F(Device, RegisteredBuffers) {
  RunRanks(3, [](Rank& self) {
    constexpr std::size_t kMost = 256 * KiB;
    DeviceRank rank(self, kMost + 4 * KiB);
    const auto cases = MixedCases(14, kWhats, self.size(), kMost);
    for (int round = 0; round < 3; ++round) {
      void *send = nullptr, *receive = nullptr;
      if (round <= self.rank()) {
        ASSERT_TRUE(Ok(tuttiCommRegister(rank.comm(), rank.arena().send(), kMost, &send)));
        ASSERT_TRUE(Ok(tuttiCommRegister(rank.comm(), rank.arena().receive(), kMost + 4 * KiB, &receive)));
      }
      for (const auto& each : cases) ASSERT_EQ(rank.Run(each), "");
      for (auto* handle : {send, receive}) {
        if (handle == nullptr) continue;
        ASSERT_TRUE(Ok(tuttiCommDeregister(rank.comm(), handle)));
      }
    }
  });
}

// One thread holds all ranks: their calls are one group, one launch.
TEST_F(Device, OneThreadForAllRanks) {
  RunAlone([] {
    constexpr int kRanks = 4;
    constexpr std::size_t kCount = 1000;
    const Gpu gpu(0);
    tuttiComm_t comms[kRanks];
    ASSERT_TRUE(Ok(tuttiCommInitAll(comms, kRanks, nullptr)));
    const auto stream = gpu.NewStream(), other = gpu.NewStream();
    auto* const memory = reinterpret_cast<float*>(gpu.Allocate(2 * kRanks * kCount * sizeof(float)));
    for (int repeat = 1; repeat <= 3; ++repeat) {
      for (std::size_t i = 0; i < kRanks * kCount; ++i) memory[i] = static_cast<float>(repeat);
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      for (int r = 0; r < kRanks; ++r) {
        const auto mine = static_cast<std::size_t>(r) * kCount;
        ASSERT_TRUE(Ok(tuttiAllReduce(memory + mine, memory + kRanks * kCount + mine, kCount, tuttiFloat, tuttiSum,
                                      comms[r], r % 2 == 0 ? stream : other)));
        // A second operation in the same launch uses what the first one made.
        ASSERT_TRUE(Ok(tuttiAllReduce(memory + kRanks * kCount + mine, memory + kRanks * kCount + mine, kCount,
                                      tuttiFloat, tuttiMax, comms[r], r % 2 == 0 ? stream : other)));
      }
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
      ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
      ASSERT_TRUE(Ok(gpu.Synchronize(other)));
      for (std::size_t i = kRanks * kCount; i < 2 * kRanks * kCount; ++i) ASSERT_EQ(memory[i], 4.0F * repeat) << i;
    }
    for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    gpu.Free(reinterpret_cast<std::byte*>(memory));
  });
}

// The host does not see a graph's replays: everything that counts them is on the GPU.
TEST_F(Device, GraphsReplay) {
  for (const std::size_t count : {2, 30'000}) {
    RunAlone([count] {
      constexpr int kRanks = 2, kReplays = 20;
      const Gpu gpu(0);
      tuttiComm_t comms[kRanks];
      ASSERT_TRUE(Ok(tuttiCommInitAll(comms, kRanks, nullptr)));
      const auto stream = gpu.NewStream();
      auto* const memory = reinterpret_cast<std::int32_t*>(gpu.Allocate(kRanks * count * sizeof(std::int32_t)));
      for (std::size_t i = 0; i < kRanks * count; ++i) memory[i] = 1;
      const auto calls = [&] {
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        for (int r = 0; r < kRanks; ++r) {
          auto* const mine = memory + static_cast<std::size_t>(r) * count;
          ASSERT_TRUE(Ok(tuttiAllReduce(mine, mine, count, tuttiInt32, tuttiSum, comms[r], stream)));
        }
        ASSERT_TRUE(Ok(tuttiGroupEnd()));
      };
      gpu.BeginCapture(stream);
      calls();
      auto* const graph = gpu.EndCapture(stream);
      for (int replay = 0; replay < kReplays; ++replay) gpu.LaunchGraph(graph, stream);
      calls();  // and outside of it
      ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
      for (std::size_t i = 0; i < kRanks * count; ++i) ASSERT_EQ(memory[i], 1 << (kReplays + 1)) << i;
      for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
      gpu.Free(reinterpret_cast<std::byte*>(memory));
    });
  }
}

// ------------------------------------------------------------------------------------------------- bad input --

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
        // Host memory and a null stream are a call like any other.
        EXPECT_TRUE(Ok(copy(host.data(), host.data(), comm, nullptr)));
        EXPECT_TRUE(Ok(copy(device, device, comm, nullptr)));
        EXPECT_TRUE(Fails(copy(device, host.data(), comm, nullptr), tuttiInvalidArgument, {"both", "one kind"}));
        EXPECT_TRUE(Fails(copy(host.data(), host.data(), comm, stream), tuttiInvalidArgument,
                          {"ordinary host memory", "stream is CUDA's"}));
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

// Nothing of a refused call is left behind.
TEST_F(Device, RefusesADestroyedStreamAndGoesOn) {
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

// The communicator is the host's then, and says why when it is given what it cannot take.
TEST_F(Device, NamesADriverThatIsTooOld) {
  RunAlone(
      [] {
        const Gpu gpu(0);
        auto* const memory = gpu.Allocate(KiB);
        tuttiUniqueId id;
        tuttiComm_t comm = nullptr;
        ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
        ASSERT_TRUE(Ok(tuttiCommInitRank(&comm, 1, id, 0)));
        EXPECT_TRUE(Fails(tuttiAllReduce(memory, memory, 1, tuttiFloat, tuttiSum, comm, gpu.NewStream()),
                          tuttiInvalidArgument, {"no CUDA device", "version is 11000"}));
        EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
        gpu.Free(memory);
      },
      {.environment = {{"TUTTI_STANDIN_DRIVER", "11000"}}});
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

// More blocks than the GPU holds at once would wait for each other for ever.
TEST_F(Device, RefusesMoreBlocksThanFit) {
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

// The calls were taken long ago; what went wrong is told by the communicator.
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
            auto result = tuttiAllReduce(rank.arena().send(), rank.arena().receive(), elements, tuttiFloat, tuttiSum,
                                         rank.comm(), rank.stream());
            if (result == tuttiSuccess) result = AsyncError(rank.comm());
            EXPECT_EQ(result, tuttiInvalidUsage);
            // Any further call says it, too.
            EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiInvalidUsage,
                              {"do not match", fmt::format("count={}", count), fmt::format("count={}", count - 1)}));
            EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
          },
          {.threads = threads});
    }
  }
}

TEST_F(Device, ADeadRankIsNamed) {
  RunRanks(3,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB);
             ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
             if (self.rank() == 1) {
               KillThisProcessAfter(std::chrono::microseconds(0));
               std::this_thread::sleep_for(std::chrono::seconds(30));
             }
             ASSERT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 100, tuttiFloat, tuttiSum,
                                           rank.comm(), rank.stream())));
             EXPECT_EQ(AsyncError(rank.comm()), tuttiRemoteError);
             EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiRemoteError, {"rank 1", "died"}));
             EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
           },
           {.may_die = {1}});
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
