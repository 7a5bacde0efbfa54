// GPUs that cannot be used, and calls that are refused: each gives a sentence that says what to do.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "testing/device_rank.h"
#include "tests/gpu/litmus.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

TEST_F(Device, RefusesBuffersThatDoNotFit) {
  const RunOptions two_devices{.environment = {{"TUTTI_FAKE_GPU_DEVICES", "2"}}};
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
  if (!fake_gpu_) GTEST_SKIP() << "what no GPU can be told to be";
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
           {.threads = true, .environment = {kOneGpu}});
}

// Then the communicator serves only host memory, and says why when it gets GPU memory.
TEST_F(Device, NamesADriverThatIsTooOld) {
  if (!fake_gpu_) GTEST_SKIP() << "what no GPU can be told to be";
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
        {.environment = {{"TUTTI_FAKE_GPU_DRIVER", version}}});
  }
}

TEST_F(Device, NamesACardThatIsTooOld) {
  if (!fake_gpu_) GTEST_SKIP() << "what no GPU can be told to be";
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
      {.environment = {{"TUTTI_FAKE_GPU_CAPABILITY", "75"}}});
}

// Other programs may have the device's memory, or the host's.
TEST_F(Device, NamesMemoryThatIsTooSmall) {
  if (!fake_gpu_) GTEST_SKIP() << "what no GPU can be told to be";
  const std::pair<const char*, std::vector<const char*>> limits[] = {
      {"TUTTI_FAKE_GPU_MEMORY_MB", {"has no", "MiB", "are free", "TUTTI_GPU=0"}},
      {"TUTTI_FAKE_GPU_PINNED_MB", {"cannot pin", "of host memory"}}};
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

// Eight hosts' rings are not all pinned at first: the call that needs more says why it fails, on all ranks.
TEST_F(Device, NamesRingsThatCannotBePinned) {
  if (!fake_gpu_) GTEST_SKIP() << "what no GPU can be told to be";
  constexpr std::size_t kMost = 64 * KiB;
  RunRanks(
      8,
      [](Rank& self) {
        DeviceRank rank(self, kMost, "ring");
        EXPECT_TRUE(Fails(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), kMost / sizeof(float), tuttiFloat,
                                         tuttiSum, rank.comm(), rank.stream()),
                          tuttiUnhandledCudaError, {"cannot pin", "of host memory"}));
      },
      {.threads = false,
       .environment = {{"TUTTI_VIRTUAL_HOSTS", "8"}, {"TUTTI_CHANNELS", "16"}, {"TUTTI_FAKE_GPU_PINNED_MB", "260"}}});
}

TEST_F(Device, NamesALostContext) {
  if (!fake_gpu_) GTEST_SKIP() << "it would take the machine's other programs with it";
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
          // The driver tells of the fault now or when it is asked next.
          static_cast<void>(rank.gpu().Launch("", kLitmusName, 1, 1, &parameter, rank.stream()));
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
      {.threads = false, .environment = {{"TUTTI_FAKE_GPU_APART", "1"}, {"TUTTI_TIMEOUT_MS", "5000"}}});
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

// Then the communicator serves only host memory, and says why when it gets a stream of the GPU.
TEST_F(Device, NamesADeviceThatOthersHave) {
  if (!fake_gpu_) GTEST_SKIP() << "what no GPU can be told to be";
  RunAlone(
      [] {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.device = 0;
        tuttiUniqueId id;
        tuttiComm_t comm = nullptr;
        ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
        ASSERT_TRUE(Ok(tuttiCommInitRankConfig(&comm, 1, id, 0, &config)));
        int device = 0;
        EXPECT_TRUE(Ok(tuttiCommCuDevice(comm, &device)));
        EXPECT_EQ(device, TUTTI_DEVICE_NONE);
        float value = 1;
        const auto stream = reinterpret_cast<tuttiStream_t>(&value);  // of no kind
        EXPECT_TRUE(Fails(tuttiAllReduce(&value, &value, 1, tuttiFloat, tuttiSum, comm, stream), tuttiInvalidArgument,
                          {"device 0 is unavailable", "nvidia-smi"}));
        EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
      },
      {.environment = {{"TUTTI_FAKE_GPU_BUSY", "1"}}});
}

// If there are more blocks than the GPU holds at once, they wait for each other forever.
TEST_F(Device, RefusesMoreBlocksThanFit) {
  if (!fake_gpu_) GTEST_SKIP() << "what no GPU can be told to be";
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 64 * KiB, "ring");
             EXPECT_TRUE(Fails(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 10'000, tuttiFloat, tuttiSum,
                                              rank.comm(), rank.stream()),
                               tuttiInvalidUsage, {"thread blocks at the same time", "TUTTI_CHANNELS"}));
           },
           {.threads = true, .environment = {{"TUTTI_FAKE_GPU_SMS", "1"}, {"TUTTI_CHANNELS", "8"}}});
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
           {.threads = true, .environment = {kOneGpu}});
}

}  // namespace
}  // namespace tutti::testing
