// Ranks on several GPUs, whose kernels wait for each other: none may stand behind one that waits for it.
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "testing/device_rank.h"
#include "testing/from_outside.h"

namespace tutti::testing {
namespace {

constexpr std::chrono::seconds kLimit{60};

RunOptions OnTwoDevices(bool threads) {
  return {.threads = threads,
          .limit = kLimit,
          .environment = {{"TUTTI_FAKE_GPU_DEVICES", "2"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}};
}

class DeviceSeveral : public Device, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    Device::SetUp();
    if (IsSkipped()) return;
    const auto outcome = RunRanks(
        1, [](Rank& self) { self.Note(std::to_string(Gpu::Count())); }, OnTwoDevices(true));
    if (outcome.front().notes == std::vector<std::string>{"1"}) GTEST_SKIP() << "there is only one GPU";
  }
};

// Each process has its communicators' objects at other addresses: some were made, and some of these destroyed, before.
TEST_P(DeviceSeveral, CommunicatorsOfAGroupShareAStream) {
  RunRanks(
      2,
      [](Rank& self) {
        constexpr std::size_t kCommunicators = 6;
        DeviceRank rank(self, kCommunicators * sizeof(float));
        Gpu& gpu = rank.gpu();
        std::vector<Comm> alone(self.rank() == 0 ? 0 : 5);
        for (auto& comm : alone) {
          tuttiUniqueId id;
          ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
          ASSERT_TRUE(Ok(tuttiCommInitRank(comm.address(), 1, id, 0)));
        }
        std::vector<Comm> all(kCommunicators);
        for (std::size_t c = 0; c < all.size(); ++c) {
          if (c < alone.size()) alone[alone.size() - 1 - c].Destroy();
          ASSERT_TRUE(Ok(tuttiCommSplit(rank.comm(), 0, self.rank(), all[c].address(), nullptr)));
        }
        std::array<float, kCommunicators> values;
        std::iota(values.begin(), values.end(), 1.F);
        auto* const data = rank.arena().send();
        for (int round = 0; round < 5; ++round) {
          gpu.Put(data, values.data(), sizeof values);
          ASSERT_TRUE(Ok(tuttiGroupStart()));
          for (std::size_t c = 0; c < all.size(); ++c) {
            auto* const place = data + c * sizeof(float);
            ASSERT_TRUE(Ok(tuttiAllReduce(place, place, 1, tuttiFloat32, tuttiSum, all[c], rank.stream())));
          }
          ASSERT_TRUE(Ok(tuttiGroupEnd()));
          ASSERT_TRUE(Ok(gpu.Synchronize(rank.stream())));
          std::array<float, kCommunicators> got{};
          gpu.Get(got.data(), data, sizeof got);
          for (std::size_t c = 0; c < all.size(); ++c) EXPECT_EQ(got[c], 2 * values[c]) << round;
        }
      },
      OnTwoDevices(GetParam()));
}

// Ranks 0 and 2 share a device, and ranks 1 and 3 another one. Each pair of neighbours exchanges messages, at times
// that put one pair's first on the first device, and the other pair's first on the second.
TEST_P(DeviceSeveral, MessagesOfRanksOnOneDeviceDoNotWaitForEachOther) {
  RunRanks(
      4,
      [](Rank& self) {
        constexpr std::size_t kCount = 4, kBytes = kCount * sizeof(float);
        DeviceRank rank(self, 4096);
        self.Meet();
        const bool late = self.rank() == 1 || self.rank() == 2;
        std::this_thread::sleep_for(std::chrono::milliseconds(late ? 300 : 0));
        const std::array<float, kCount> values = {1.F * static_cast<float>(self.rank()), 1, 2, 3};
        rank.gpu().Put(rank.arena().send(), values.data(), kBytes);
        const int peer = self.rank() ^ 1;
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        ASSERT_TRUE(Ok(tuttiSend(rank.arena().send(), kCount, tuttiFloat32, peer, rank.comm(), rank.stream())));
        ASSERT_TRUE(Ok(tuttiRecv(rank.arena().receive(), kCount, tuttiFloat32, peer, rank.comm(), rank.stream())));
        ASSERT_TRUE(Ok(tuttiGroupEnd()));
        ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
        std::array<float, kCount> got{};
        rank.gpu().Get(got.data(), rank.arena().receive(), kBytes);
        EXPECT_EQ(got[0], static_cast<float>(peer));
        // Collectives come after the messages of all.
        ASSERT_TRUE(Ok(tuttiBarrier(rank.comm(), rank.stream())));
        ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
      },
      OnTwoDevices(GetParam()));
}

// Two hosts of two GPUs each: every GPU sends to the other host, in some of the channels.
TEST_P(DeviceSeveral, FlatRingsCrossHostsAtEveryRank) {
  auto options = OnTwoDevices(GetParam());
  for (const auto& [name, value] : {std::pair("TUTTI_VIRTUAL_HOSTS", "2"), std::pair("TUTTI_CHANNELS", "4")})
    options.environment.emplace_back(name, value);
  RunRanks(
      4,
      [](Rank& self) {
        constexpr std::size_t kCount = 1 << 18;
        DeviceRank rank(self, kCount * sizeof(float), "ring");
        ASSERT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), kCount, tuttiFloat32, tuttiSum,
                                      rank.comm(), rank.stream())));
        ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
        tuttiCounters_t counters{};
        counters.size = sizeof counters;
        ASSERT_TRUE(Ok(tuttiCommGetCounters(rank.comm(), &counters)));
        const auto& sent = counters.bytesSent[tuttiTransportTcp];
        const auto bytes = std::accumulate(std::begin(sent), std::end(sent), std::uint64_t{0});
        // Each ring sends three of four parts, twice, and crosses here at one of this host's two ranks.
        EXPECT_EQ(bytes, kCount * sizeof(float) * 3 / 4 * 2 / 2);
      },
      options);
}

// One thread makes the calls of all ranks.
// A topology file gives each two of four GPUs an NVLink of their own: rings by rank would leave most of them idle.
TEST_P(DeviceSeveral, RingsOnOneHostFollowItsLinks) {
  if (!fake_gpu_) GTEST_SKIP() << "these GPUs have their own links";
  const Environment environment = {{"TUTTI_FAKE_GPU_DEVICES", "4"},
                                   {"TUTTI_VIRTUAL_HOSTS", "1"},
                                   {"TUTTI_TOPO_FILE", TUTTI_SOURCE_DIR "/topology/testdata/hgxa100_4gpu.xml"},
                                   {"TUTTI_MIN_CHANNELS", "6"}};
  constexpr std::size_t kMostBytes = 64 * 1024;
  RunCases({4, "ring", GetParam(), environment}, MixedCases(3, 2 * kWhats, 4, kMostBytes), kMostBytes);
  if (GetParam()) return;
  auto told = environment;
  told.emplace_back("TUTTI_DEBUG", "init");
  RunRanks(4,
           [](Rank& self) {
             ::testing::internal::CaptureStderr();
             const DeviceRank rank(self, 1);
             const std::string log = ::testing::internal::GetCapturedStderr();
             const bool follow = log.find("rings of GPUs follow the host's links: 0,1,") != std::string::npos;
             EXPECT_EQ(follow, self.rank() == 0) << log;
           },
           {.environment = told});
}

TEST_P(DeviceSeveral, OneThreadForAllRanks) {
  if (!GetParam()) GTEST_SKIP() << "one thread is in one process";
  RunAlone(
      [] {
        constexpr std::size_t kRanks = 4, kCalls = 3;
        struct Each {
          Gpu gpu;
          tuttiStream_t stream;
          std::byte* data;
          explicit Each(int rank) : gpu(rank), stream(gpu.NewStream()), data(gpu.Allocate(sizeof(float))) {}
        };
        std::deque<Each> all;
        for (std::size_t r = 0; r < kRanks; ++r) all.emplace_back(static_cast<int>(r));
        std::array<tuttiComm_t, kRanks> comms;
        ASSERT_TRUE(Ok(tuttiCommInitAll(comms.data(), kRanks, nullptr)));
        const float one = 1;
        for (auto& each : all) {
          each.gpu.MakeCurrent();
          each.gpu.Put(each.data, &one, sizeof one);
        }
        const auto call = [&] {
          ASSERT_TRUE(Ok(tuttiGroupStart()));
          for (std::size_t r = 0; r < kRanks; ++r) {
            ASSERT_TRUE(
                Ok(tuttiAllReduce(all[r].data, all[r].data, 1, tuttiFloat32, tuttiSum, comms[r], all[r].stream)));
          }
          ASSERT_TRUE(Ok(tuttiGroupEnd()));
        };
        float expected = 1;
        for (std::size_t i = 0; i < kCalls; ++i) {
          call();
          expected *= kRanks;
        }
        for (auto& each : all) {
          each.gpu.MakeCurrent();
          ASSERT_TRUE(Ok(each.gpu.Synchronize(each.stream)));
          float got = 0;
          each.gpu.Get(&got, each.data, sizeof got);
          EXPECT_EQ(got, expected);
        }
        for (auto* comm : comms) EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
      },
      OnTwoDevices(true));
}

// Ranks 2 and 3 exchange a message while one of rank 0, on rank 2's device, waits for its receiver.
TEST_P(DeviceSeveral, AMessageThatWaitsHoldsNoOtherRank) {
  RunRanks(
      4,
      [](Rank& self) {
        constexpr std::size_t kMore = std::size_t{1} << 22;  // elements than slots hold
        DeviceRank rank(self, kMore * sizeof(float));
        auto& arena = rank.arena();
        const auto message = [&](std::size_t count) {
          const int peer = self.rank() ^ 1;
          return self.rank() % 2 == 0
                     ? tuttiSend(arena.send(), count, tuttiFloat32, peer, rank.comm(), rank.stream())
                     : tuttiRecv(arena.receive(), count, tuttiFloat32, peer, rank.comm(), rank.stream());
        };
        const std::vector<float> values(kMore, static_cast<float>(1 + self.rank()));
        rank.gpu().Put(arena.send(), values.data(), kMore * sizeof(float));
        if (self.rank() == 0) {
          ASSERT_TRUE(Ok(message(kMore)));
        }
        self.Meet();
        if (self.rank() >= 2) {
          ASSERT_TRUE(Ok(message(1)));
          ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
        }
        self.Meet();
        if (self.rank() == 1) {
          ASSERT_TRUE(Ok(message(kMore)));
        }
        ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
        if (self.rank() % 2 == 0) return;
        const std::size_t count = self.rank() == 1 ? kMore : 1;
        std::vector<float> got(count);
        rank.gpu().Get(got.data(), arena.receive(), count * sizeof(float));
        EXPECT_EQ(got, std::vector<float>(count, static_cast<float>(self.rank())));
      },
      OnTwoDevices(GetParam()));
}

// Ranks of one process would otherwise read each other's memory where their GPUs fault.
TEST_P(DeviceSeveral, WindowsNeedGpusThatReachEachOther) {
  if (!fake_gpu_ || std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "these GPUs may well do so";
  auto options = OnTwoDevices(GetParam());
  options.environment.emplace_back("TUTTI_FAKE_GPU_PEERS", "0");
  RunRanks(
      2,
      [](Rank& self) {
        DeviceRank rank(self, 4096);
        void* mapped = nullptr;
        ASSERT_TRUE(Ok(tuttiMemAlloc(&mapped, 4096)));
        for (void* memory : {static_cast<void*>(rank.gpu().Allocate(4096)), mapped}) {
          tuttiWindow_t window = nullptr;
          EXPECT_TRUE(Fails(tuttiCommWindowRegister(rank.comm(), memory, 4096, &window, TUTTI_WIN_DEFAULT),
                            tuttiInvalidArgument, {"cannot be mapped by all ranks", "rank 0"}));
        }
        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
        EXPECT_TRUE(Ok(tuttiMemFree(mapped)));
      },
      options);
}

// The others do not wait for it.
TEST_P(DeviceSeveral, AWindowThatOneRankCannotOpenIsNobodys) {
  if (!fake_gpu_ || GetParam() || std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "nothing is opened";
  RunRanks(
      2,
      [](Rank& self) {
        if (self.rank() == 0) setenv("TUTTI_FAKE_GPU_IMPORTS", "0", 1);
        DeviceRank rank(self, 4096);
        tuttiWindow_t window = nullptr;
        EXPECT_TRUE(
            Fails(tuttiCommWindowRegister(rank.comm(), rank.gpu().Allocate(4096), 4096, &window, TUTTI_WIN_DEFAULT),
                  tuttiInvalidArgument, {"cannot be mapped by all ranks: rank 0", "cuIpcOpenMemHandle"}));
        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
      },
      OnTwoDevices(false));
}

INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, DeviceSeveral, ::testing::Bool());

}  // namespace
}  // namespace tutti::testing
