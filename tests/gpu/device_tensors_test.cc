// Tensor collectives on GPU memory, or on the fake GPU's.
#include <fmt/format.h>

#include <tuple>

#include "testing/device_rank.h"
#include "testing/tensor_forms.h"

namespace tutti::testing {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of a tensor including its gaps

void EveryForm(DeviceRank& rank, const Rank& self, Arena& arena, int trials, std::size_t most) {
  for (int t = 0; t < trials; ++t) {
    const auto seed = static_cast<unsigned>(t);
    const auto trial = MakeTrial(seed, most);
    SCOPED_TRACE(fmt::format("trial {} on {} ranks", t, self.size()));
    std::mt19937 random(1000 * seed + static_cast<unsigned>(self.rank()));  // each rank has its own strides
    const Where where{&arena, &rank.gpu(), rank.stream()};
    switch (t % 3) {
      case 0: TensorForms<std::int32_t>(rank.comm(), self, where).Run(trial, random); break;
      case 1: TensorForms<std::int8_t>(rank.comm(), self, where).Run(trial, random); break;
      default: TensorForms<double>(rank.comm(), self, where).Run(trial, random); break;
    }
    if (::testing::Test::HasFailure()) return;
  }
}

struct Around {
  int ranks;
  bool threads;
  std::string algorithm = {};  // empty: the selector's choice
  Environment environment = {};
  int trials = 12;
  std::size_t most = 4000;  // elements of a block
};

void EveryForm(const Around& around) {
  SCOPED_TRACE(fmt::format("{} ranks as {}, algorithm \"{}\"", around.ranks, around.threads ? "threads" : "processes",
                           around.algorithm));
  RunRanks(around.ranks,
           [&](Rank& self) {
             DeviceRank rank(self, kMostBytes, around.algorithm);
             EveryForm(rank, self, rank.arena(), around.trials, around.most);
           },
           {.threads = around.threads, .environment = around.environment});
}

class DeviceTensors : public Device, public ::testing::WithParamInterface<std::tuple<int, const char*>> {
 protected:
  static void Run(bool threads) { EveryForm({std::get<0>(GetParam()), threads, std::get<1>(GetParam())}); }
};

TEST_P(DeviceTensors, OfThreads) { Run(true); }
TEST_P(DeviceTensors, OfProcesses) { Run(false); }

INSTANTIATE_TEST_SUITE_P(All, DeviceTensors,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values("", "direct", "ring", "recursive", "bruck")),
                         [](const auto& info) {
                           const std::string algorithm = std::get<1>(info.param);
                           return fmt::format("{}_ranks_{}", std::get<0>(info.param),
                                              algorithm.empty() ? "chosen" : algorithm);
                         });

// Protocols split the same places into different pieces. Only slots carry tensors, but settings may ask for chunks
// longer than a slot.
TEST_F(Device, TensorsByEveryProtocol) {
  const Environment wires[] = {{{"TUTTI_CHANNELS", "1"}},  // packets for short messages
                               {{"TUTTI_PROTO", "bulk"}},
                               {{"TUTTI_PROTO", "bulk"}, {"TUTTI_CHUNK", "192"}},
                               {{"TUTTI_PROTO", "bulk"}, {"TUTTI_CHUNK", "524288"}, {"TUTTI_CHANNELS", "1"}},
                               {{"TUTTI_ZERO_COPY", "0"}},
                               {{"TUTTI_PROTO", "inline"}}};
  const bool lines = WhyNoLines().empty();
  for (const auto& environment : wires) {
    if (!lines && environment.back().second == "inline") continue;
    SCOPED_TRACE(fmt::format("{}={}", environment.back().first, environment.back().second));
    EveryForm({3, true, "", environment, 6, 60'000});
    EveryForm({2, false, "ring", environment, 6, 60'000});
  }
}

// If all slots of a plain call may refer to memory, chunks may be longer than a slot. A tensor's chunks may not.
TEST_F(Device, TensorsInChunksLongerThanSlots) {
  RunRanks(
      3,
      [](Rank& self) {
        DeviceRank rank(self, kMostBytes);
        const Where where{&rank.arena(), &rank.gpu(), rank.stream()};
        for (unsigned seed = 0; seed < 3; ++seed) {
          std::mt19937 random(3 * seed + static_cast<unsigned>(self.rank()));
          TensorForms<std::int32_t>(rank.comm(), self, where).Run({{1500, 360}, 1, 0}, random);
        }
      },
      {.threads = true, .environment = {{"TUTTI_CHUNK", "524288"}, {"TUTTI_PROTO", "bulk"}, {"TUTTI_CHANNELS", "1"}}});
}

// GPUs that cannot reach each other's memory use host memory between them; also GPUs that can.
TEST_F(Device, TensorsOnSeveralDevices) {
  EveryForm({4, true, "", {{"TUTTI_FAKE_GPU_DEVICES", "2"}, {"TUTTI_FAKE_GPU_PEERS", "0"}}, 9});
  EveryForm({4, true, "", {{"TUTTI_FAKE_GPU_DEVICES", "4"}}, 9});
  EveryForm({4, false, "", {{"TUTTI_FAKE_GPU_DEVICES", "4"}}, 9});
}

// Peers read a window's memory in place, but not where it is strided.
TEST_F(Device, TensorsInWindows) {
  RunRanks(3,
           [](Rank& self) {
             DeviceRank rank(self, 1024);
             constexpr std::size_t kBytes = std::size_t{8} << 20;
             Arena arena(rank.gpu(), kBytes, Arena::Kind::allocated);
             arena.Register(rank.comm());
             EveryForm(rank, self, arena, 12, 4000);
             arena.Deregister(rank.comm());
           },
           {.environment = {{"TUTTI_PROTO", "bulk"}}});
}

constexpr tuttiTensorLayout_t Rows(std::size_t rows, std::size_t columns, std::size_t stride) {
  return {2, {rows, columns}, {stride, 1}};
}

// A group of calls is one launch, and graphs that hold such launches replay without the host.
TEST_F(Device, TensorsInGroupsAndGraphs) {
  RunAlone([] {
    constexpr int kRanks = 2, kReplays = 10;
    constexpr std::size_t kRows = 33, kColumns = 40, kStride = 2 * kColumns + 3, kAll = kRows * kStride;
    const Gpu gpu(0);
    tuttiComm_t comms[kRanks];
    InitAllOnOneGpu(comms, kRanks);
    const auto stream = gpu.NewStream();
    // For each rank: its own columns, all ranks' columns, and its own part of their sum.
    auto* const memory = reinterpret_cast<std::int32_t*>(gpu.AllocateShared(3 * kRanks * kAll * sizeof(std::int32_t)));
    const auto part = [&](int rank, int which) { return memory + static_cast<std::size_t>(3 * rank + which) * kAll; };
    const auto columns = Rows(kRows, kColumns, kColumns + 1), all = Rows(kRows, 2 * kColumns, kStride),
               own = Rows(kRows, kColumns, kColumns);
    const auto calls = [&] {
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      for (int r = 0; r < kRanks; ++r) {
        ASSERT_TRUE(Ok(tuttiAllGatherTensor(part(r, 0), &columns, part(r, 1), &all, 1, tuttiInt32, comms[r], stream)));
        ASSERT_TRUE(Ok(
            tuttiReduceScatterTensor(part(r, 1), &all, part(r, 2), &own, 1, tuttiInt32, tuttiSum, comms[r], stream)));
      }
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
    };
    gpu.BeginCapture(stream);
    calls();
    auto* const graph = gpu.EndCapture(stream);
    for (int replay = 0; replay <= kReplays; ++replay) {
      std::fill_n(memory, 3 * kRanks * kAll, -1);
      for (int r = 0; r < kRanks; ++r) {
        for (std::size_t i = 0; i < kRows * (kColumns + 1); ++i) {
          part(r, 0)[i] = static_cast<std::int32_t>(i) * 10 + r + replay * 100'000;
        }
      }
      if (replay < kReplays) {
        gpu.LaunchGraph(graph, stream);
      } else {
        calls();  // outside a graph
      }
      ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
      for (int r = 0; r < kRanks; ++r) {
        for (std::size_t i = 0; i < kRows; ++i) {
          for (std::size_t j = 0; j < 2 * kColumns; ++j) {
            const auto owner = static_cast<int>(j / kColumns);
            ASSERT_EQ(part(r, 1)[i * kStride + j], part(owner, 0)[i * (kColumns + 1) + j % kColumns]) << i << ", " << j;
          }
          for (std::size_t j = 2 * kColumns; j < kStride; ++j) ASSERT_EQ(part(r, 1)[i * kStride + j], -1);
          for (std::size_t j = 0; j < kColumns; ++j) {
            ASSERT_EQ(part(r, 2)[i * kColumns + j], 2 * part(r, 0)[i * (kColumns + 1) + j]) << i << ", " << j;
          }
        }
      }
    }
    for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    gpu.Free(reinterpret_cast<std::byte*>(memory));
  });
}

// One rank's strides change between calls of the same shape.
TEST_F(Device, TensorsOfOneShapeWithOtherStrides) {
  RunRanks(2, [](Rank& self) {
    DeviceRank rank(self, kMostBytes);
    Trial trial{{8, 24}, 1, 0};
    const Where where{&rank.arena(), &rank.gpu(), rank.stream()};
    for (unsigned seed = 0; seed < 12; ++seed) {
      std::mt19937 random(2 * seed + static_cast<unsigned>(self.rank()));
      TensorForms<std::int32_t>(rank.comm(), self, where).Run(trial, random);
    }
  });
}

TEST_F(Device, TensorOfAnotherShapeOnAnotherRankIsTold) {
  RunRanks(2, [](Rank& self) {
    DeviceRank rank(self, 4096);
    const auto part = self.rank() == 0 ? Rows(4, 6, 6) : Rows(6, 4, 4),
               whole = self.rank() == 0 ? Rows(4, 12, 12) : Rows(6, 8, 8);
    ASSERT_TRUE(Ok(tuttiAllGatherTensor(rank.arena().send(), &part, rank.arena().receive(), &whole, 1, tuttiFloat32,
                                        rank.comm(), rank.stream())));
    ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
    tuttiResult_t error = tuttiSuccess;
    while (error == tuttiSuccess) ASSERT_TRUE(Ok(tuttiCommGetAsyncError(rank.comm(), &error)));
    EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiInvalidUsage,
                      {"all_gather_tensor(count=24, float32)", "on tensors of another shape"}));
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::testing
