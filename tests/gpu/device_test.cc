// Collectives on GPU memory: a real GPU's or the fake GPU's, which runs the kernels' own source as threads.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include "testing/collective_case.h"
#include "testing/device_rank.h"
#include "testing/elements.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

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
                                                              "recursive", "recursive_doubling", "bruck", "binomial",
                                                              "grouped", "peer_memory")),
                         [](const auto& info) {
                           const std::string algorithm = std::get<1>(info.param);
                           return fmt::format("{}_ranks_{}", std::get<0>(info.param),
                                              algorithm.empty() ? "chosen" : algorithm);
                         });

// Every type and operator, through packets, vectors and odd tails.
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

// Ranks of one process and GPU refer to memory, so a chunk may be longer than a slot. It may not where a schedule has
// slots that carry sums, nor for contributions that are scaled first, which exist nowhere in memory.
TEST_F(Device, ChunksLongerThanSlots) {
  constexpr std::size_t kMost = 1024 * KiB;
  const std::vector<std::pair<std::string, std::string>> long_chunks = {
      {"TUTTI_CHUNK", "524288"}, {"TUTTI_PROTO", "bulk"}, {"TUTTI_CHANNELS", "1"}};
  for (const char* algorithm : {"direct", "two_shot", "ring"}) {
    RunCases({3, algorithm, true, long_chunks}, MixedCases(15, 2 * kWhats, 3, kMost), kMost);
  }
  RunRanks(3,
           [](Rank& self) {
             DeviceRank rank(self, kMost, "two_shot");
             const float scale = static_cast<float>(self.rank() + 1);
             tuttiRedOp_t op = tuttiSum;
             ASSERT_TRUE(Ok(tuttiRedOpCreatePreMulSum(&op, const_cast<float*>(&scale), tuttiFloat,
                                                      tuttiScalarHostImmediate, rank.comm())));
             std::vector<float> values(kMost / sizeof(float), 1.0F);
             rank.gpu().Put(rank.arena().send(), values.data(), kMost);
             ASSERT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), values.size(), tuttiFloat, op,
                                           rank.comm(), rank.stream())));
             ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
             rank.gpu().Get(values.data(), rank.arena().receive(), kMost);
             EXPECT_EQ(std::count(values.begin(), values.end(), 1.0F + 2.0F + 3.0F), values.size());
           },
           {.threads = true, .environment = long_chunks});
}

// Eight hosts have more rings than are pinned at first: the last channels' are pinned by the call that uses them.
TEST_F(Device, RingsBetweenManyHosts) {
  constexpr std::size_t kMost = 256 * KiB;
  const Case sum{What::all_reduce, tuttiFloat, tuttiSum, kMost / sizeof(float), 0, false, 15};
  RunCases({8, "ring", true, {{"TUTTI_VIRTUAL_HOSTS", "8"}, {"TUTTI_CHANNELS", "16"}}}, {sum, sum}, kMost);
}

// GPUs that cannot reach each other's memory exchange data through host memory.
// Blocks share one step, whose chunks are their turns.
TEST_F(Device, PeerMemoryInSharesAndChunks) {
  for (const int ranks : {2, 3}) {
    RunCases({ranks, "peer_memory", true, {{"TUTTI_CHANNELS", "3"}, {"TUTTI_CHUNK", "20000"}}},
             MixedCases(17, 2 * kWhats, ranks, 256 * KiB), 256 * KiB);
  }
}

// Where some ranks' calls are in place, peer memory moves copies of their inputs; also in a graph's replays.
TEST_F(Device, AllToAllInPlaceOnSomeRanks) {
  RunAlone([] {
    constexpr std::size_t kRanks = 3, kCount = 5000, kAll = kRanks * kCount;
    constexpr int kReplays = 3;
    const Gpu gpu(0);
    tuttiComm_t comms[kRanks];
    InitAllOnOneGpu(comms, kRanks);
    const auto stream = gpu.NewStream();
    auto* const inputs =
        reinterpret_cast<std::uint32_t*>(gpu.AllocateShared(2 * kRanks * kAll * sizeof(std::uint32_t)));
    std::uint32_t* const outputs = inputs + kRanks * kAll;
    const auto value = [](std::size_t from, std::size_t to, std::size_t i) {
      return static_cast<std::uint32_t>((from * kRanks + to) * kCount + i);
    };
    const auto in_place = [](std::size_t rank) { return rank != 1; };
    const auto fill = [&] {
      for (std::size_t i = 0; i < kRanks * kAll; ++i) inputs[i] = value(i / kAll, i % kAll / kCount, i % kCount);
    };
    const auto call = [&] {
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      for (std::size_t r = 0; r < kRanks; ++r) {
        std::uint32_t* const input = inputs + r * kAll;
        ASSERT_TRUE(
            Ok(tuttiAlltoAll(input, in_place(r) ? input : outputs + r * kAll, kCount, tuttiUint32, comms[r], stream)));
      }
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
    };
    gpu.BeginCapture(stream);
    call();
    auto* const graph = gpu.EndCapture(stream);
    for (int replay = 0; replay <= kReplays; ++replay) {
      fill();
      if (replay == 0) {
        call();
      } else {
        gpu.LaunchGraph(graph, stream);
      }
      ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
      for (std::size_t i = 0; i < kRanks * kAll; ++i) {
        const std::size_t rank = i / kAll;
        const std::uint32_t* const output = in_place(rank) ? inputs : outputs;
        ASSERT_EQ(output[i], value(i % kAll / kCount, rank, i % kCount)) << replay << ", element " << i;
      }
    }
    for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    gpu.Free(reinterpret_cast<std::byte*>(inputs));
  });
}

// More than the steps of other algorithms may write to.
TEST_F(Device, PeerMemoryOfManyRanks) {
  constexpr int kRanks = 24;
  RunCases({kRanks, "peer_memory", true, {{"TUTTI_CHANNELS", "1"}}}, MixedCases(19, 2 * kWhats, kRanks, 16 * KiB),
           16 * KiB);
}

TEST_F(Device, ThroughHostMemory) {
  const auto cases = MixedCases(11, 3 * kWhats, 4, 256 * KiB);
  const std::vector<std::pair<std::string, std::string>> apart = {{"TUTTI_FAKE_GPU_DEVICES", "2"},
                                                                  {"TUTTI_FAKE_GPU_PEERS", "0"}};
  RunCases({4, "", true, apart}, cases, 256 * KiB);
  RunCases({4, "", false, apart}, cases, 256 * KiB);
}

TEST_F(Device, OnSeveralDevices) {
  const auto cases = MixedCases(12, 3 * kWhats, 4, 256 * KiB);
  const std::vector<std::pair<std::string, std::string>> several = {{"TUTTI_FAKE_GPU_DEVICES", "4"}};
  RunCases({4, "", true, several}, cases, 256 * KiB);
  RunCases({4, "", false, several}, cases, 256 * KiB);
}

// Windows on tuttiMemAlloc's memory, between processes: peers read it in place.
TEST_F(Device, Windows) {
  RunRanks(4, [](Rank& self) {
    DeviceRank rank(self, KiB);
    constexpr std::size_t kMost = 256 * KiB;
    Arena arena(rank.gpu(), kMost + 4 * KiB, Arena::Kind::allocated);
    arena.Register(rank.comm());
    for (const auto& each : MixedCases(13, 3 * kWhats, self.size(), kMost)) ASSERT_EQ(rank.Run(each, arena), "");
    // Host memory can have windows, too, but one window cannot mix both kinds.
    std::vector<std::byte> host(KiB);
    tuttiWindow_t window = nullptr;
    void* const mixed = self.rank() == 0 ? static_cast<void*>(host.data()) : arena.send();
    EXPECT_TRUE(Fails(tuttiCommWindowRegister(rank.comm(), mixed, KiB, &window, TUTTI_WIN_DEFAULT),
                      tuttiInvalidArgument, {"host memory on rank 0", "GPU memory on rank 1"}));
    arena.Deregister(rank.comm());
    ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 30'000, 0, false, 1}, arena), "");
  });
}

// Each rank registers memory for itself, some late and some never; the results stay the same.
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

// One thread holds all ranks: their calls form one group and one launch.
TEST_F(Device, OneThreadForAllRanks) {
  RunAlone([] {
    constexpr int kRanks = 4;
    constexpr std::size_t kCount = 1000;
    const Gpu gpu(0);
    tuttiComm_t comms[kRanks];
    InitAllOnOneGpu(comms, kRanks);
    const auto stream = gpu.NewStream(), other = gpu.NewStream();
    auto* const memory = reinterpret_cast<float*>(gpu.AllocateShared(2 * kRanks * kCount * sizeof(float)));
    for (int repeat = 1; repeat <= 3; ++repeat) {
      for (std::size_t i = 0; i < kRanks * kCount; ++i) memory[i] = static_cast<float>(repeat);
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      for (int r = 0; r < kRanks; ++r) {
        const auto mine = static_cast<std::size_t>(r) * kCount;
        ASSERT_TRUE(Ok(tuttiAllReduce(memory + mine, memory + kRanks * kCount + mine, kCount, tuttiFloat, tuttiSum,
                                      comms[r], r % 2 == 0 ? stream : other)));
        // A second operation in the same launch uses the first one's output.
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

// Both ends of a message to the rank itself keep the order of their streams: the data is what the sender wrote before,
// and the sender may overwrite it afterwards.
TEST_F(Device, MessagesToOneselfOnTwoStreams) {
  RunAlone([] {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const Gpu gpu(0);
    tuttiComm_t comm = nullptr;
    ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
    const auto sends = gpu.NewStream(), receives = gpu.NewStream();
    std::byte* const memory = gpu.AllocateShared(3 * kBytes);
    std::byte *const source = memory, *const sent = memory + kBytes, *const received = memory + 2 * kBytes;
    for (int repeat = 1; repeat <= 5; ++repeat) {
      std::fill_n(source, kBytes, std::byte(repeat));
      std::fill_n(sent, 2 * kBytes, std::byte{0xff});
      gpu.CopyAsync(sent, source, kBytes, sends);
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      ASSERT_TRUE(Ok(tuttiRecv(received, kBytes, tuttiInt8, 0, comm, receives)));
      ASSERT_TRUE(Ok(tuttiSend(sent, kBytes, tuttiInt8, 0, comm, sends)));
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
      gpu.CopyAsync(sent, sent + kBytes / 2, kBytes / 2, sends);
      ASSERT_TRUE(Ok(gpu.Synchronize(receives)));
      EXPECT_EQ(std::count(received, received + kBytes, std::byte(repeat)), kBytes);
      ASSERT_TRUE(Ok(gpu.Synchronize(sends)));
    }
    ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    gpu.Free(memory);
  });
}

// Two branches of one graph: a communicator's operations still run in order.
TEST_F(Device, GraphsThatForkKeepTheOrder) {
  RunAlone([] {
    constexpr int kRanks = 2, kReplays = 7;
    constexpr std::size_t kCount = 30'000;
    const Gpu gpu(0);
    tuttiComm_t comms[kRanks];
    InitAllOnOneGpu(comms, kRanks);
    const auto stream = gpu.NewStream(), branch = gpu.NewStream();
    auto* const memory =
        reinterpret_cast<std::uint32_t*>(gpu.AllocateShared(2 * kRanks * kCount * sizeof(std::uint32_t)));
    std::fill_n(memory, 2 * kRanks * kCount, 1);
    const auto calls_on = [&](std::uint32_t* from, tuttiStream_t first, tuttiStream_t second) {
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      for (int r = 0; r < kRanks; ++r) {
        auto* const mine = from + static_cast<std::size_t>(r) * kCount;
        ASSERT_TRUE(Ok(tuttiAllReduce(mine, mine, kCount, tuttiUint32, tuttiSum, comms[r], r == 0 ? first : second)));
      }
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
    };
    const auto calls = [&](std::uint32_t* from, tuttiStream_t on) { calls_on(from, on, on); };
    gpu.BeginCapture(stream);
    gpu.Follow(branch, stream);
    calls(memory, stream);
    calls(memory + kRanks * kCount, branch);
    gpu.Follow(stream, branch);
    for (int call = 0; call < 3; ++call) {
      calls_on(memory, stream, branch);
      // A launch has edges from the one before only: a graph with edges from all earlier ones is slow.
      EXPECT_EQ(gpu.NodesBefore(stream), 1U);
      EXPECT_EQ(gpu.NodesBefore(branch), 1U);
    }
    auto* const graph = gpu.EndCapture(stream);
    for (int replay = 0; replay < kReplays; ++replay) gpu.LaunchGraph(graph, stream);
    ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
    constexpr auto kOnce = kRanks * kCount;
    for (std::size_t i = 0; i < 2 * kOnce; ++i) ASSERT_EQ(memory[i], 1U << (i < kOnce ? 4 : 1) * kReplays) << i;
    for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    gpu.Free(reinterpret_cast<std::byte*>(memory));
  });
}

// Captures a group too long for a kernel's parameter, right after one that is not captured and whose event is still
// being polled. None of this invalidates a capture in the strictest mode.
TEST_F(Device, LongGroupsAreCaptured) {
  RunAlone([] {
    constexpr int kCalls = 40;
    const Gpu gpu(0);
    tuttiComm_t comms[2];
    InitAllOnOneGpu(comms, 2);
    const auto stream = gpu.NewStream();
    auto* const memory = reinterpret_cast<std::int32_t*>(gpu.AllocateShared(2 * sizeof(std::int32_t)));
    memory[0] = memory[1] = 1;
    const auto calls = [&] {
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      for (int call = 0; call < kCalls; ++call) {
        for (int r = 0; r < 2; ++r) {
          ASSERT_TRUE(Ok(tuttiAllReduce(memory + r, memory + r, 1, tuttiInt32, call == 0 ? tuttiSum : tuttiMax,
                                        comms[r], stream)));
        }
      }
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
    };
    calls();
    gpu.BeginCapture(stream, Gpu::Capture::global);
    calls();
    auto* const graph = gpu.EndCapture(stream);
    gpu.LaunchGraph(graph, stream);
    ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
    EXPECT_EQ(memory[0], 4);
    EXPECT_EQ(memory[1], 4);
    for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    gpu.Free(reinterpret_cast<std::byte*>(memory));
  });
}

// The host does not see a graph's replays, so everything that counts them is on the GPU.
TEST_F(Device, GraphsReplay) {
  for (const std::size_t count : {2, 30'000}) {
    RunAlone([count] {
      constexpr int kRanks = 2, kReplays = 20;
      const Gpu gpu(0);
      tuttiComm_t comms[kRanks];
      InitAllOnOneGpu(comms, kRanks);
      const auto stream = gpu.NewStream();
      auto* const memory = reinterpret_cast<std::int32_t*>(gpu.AllocateShared(kRanks * count * sizeof(std::int32_t)));
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
      calls();  // and outside a graph
      ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
      for (std::size_t i = 0; i < kRanks * count; ++i) ASSERT_EQ(memory[i], 1 << (kReplays + 1)) << i;
      for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
      gpu.Free(reinterpret_cast<std::byte*>(memory));
    });
  }
}

}  // namespace
}  // namespace tutti::testing
