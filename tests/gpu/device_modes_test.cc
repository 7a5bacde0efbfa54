// Device collectives under every setting and circumstance that changes how they run: forced protocols, counters that
// wrap, GPUs that may not use each other's memory, graphs between plain calls, allocations that wait for kernels.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "testing/device_rank.h"
#include "testing/from_outside.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

using Environment = std::vector<std::pair<std::string, std::string>>;

bool IsInline(const Environment& way) { return !way.empty() && way.front().second == "inline"; }

// Packets, slots and operations are counted in words that wrap: at 2^31 slots for packets, at 2^32 for bulk slots and
// lanes' progress; lines' flags go on in 64 bits. Slots of packets are renewed at odd multiples of 2^29, progress is
// forgotten at multiples of 2^30.
TEST_F(Device, CountsWrap) {
  const bool lines = WhyNoLines().empty();
  for (const std::uint64_t wrap : {1ULL << 29, 1ULL << 30, 1ULL << 31, 1ULL << 32}) {
    for (const Environment& way : {Environment{},
                                   {{"TUTTI_ZERO_COPY", "0"}},
                                   {{"TUTTI_PROTO", "line"}},
                                   {{"TUTTI_PROTO", "inline"}},
                                   {{"TUTTI_GPU_P2P", "0"}}}) {
      if (IsInline(way) && !lines) continue;
      Environment environment = way;
      SCOPED_TRACE(fmt::format("from {:#x} - 6, {}", wrap,
                               way.empty() ? "as chosen" : way.front().first + "=" + way.front().second));
      environment.emplace_back("TUTTI_COUNT_FROM", std::to_string(wrap - 6));
      for (const bool threads : {true, false}) {
        RunCases({3, "", threads, environment}, MixedCases(21, 2 * kWhats, 3, 64 * KiB), 64 * KiB);
      }
    }
  }
}

TEST_F(Device, ForcedProtocols) {
  const bool lines = WhyNoLines().empty();
  for (const std::string protocol : {"line", "inline", "bulk"}) {
    if (protocol == "inline" && !lines) continue;
    for (const char* algorithm : {"", "direct", "ring", "double_binary_tree"}) {
      for (const char* chunk : {"0", "1024"}) {
        RunCases({3, algorithm, true, {{"TUTTI_PROTO", protocol}, {"TUTTI_CHUNK", chunk}}},
                 MixedCases(22, kWhats, 3, 512 * KiB), 512 * KiB);
      }
    }
  }
}

// A network carries bulk slots alone; each host has packets and lines inside.
TEST_F(Device, HostsHavePacketsAndLinesInside) {
  const bool lines = WhyNoLines().empty();
  for (const std::string protocol : {"line", "inline", "bulk"}) {
    if (protocol == "inline" && !lines) continue;
    const Environment environment{{"TUTTI_VIRTUAL_HOSTS", "2"}, {"TUTTI_PROTO", protocol}};
    for (const char* algorithm : {"ring", "recursive_doubling", "two_level", "two_level_tree"}) {
      const auto outcome = RunRanks(4,
                                    [&](Rank& self) {
                                      DeviceRank rank(self, 256 * KiB, algorithm);
                                      for (const std::size_t count : {5, 3001, 50'001}) {
                                        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, count}), "");
                                      }
                                      self.Note(LastOperation(rank.comm()));
                                      // To the other rank of the host, and to one of the other host.
                                      for (const int distance : {1, 2}) {
                                        EXPECT_EQ(rank.Run({What::shift, tuttiInt8, tuttiSum, 3001, distance}), "");
                                      }
                                    },
                                    {.environment = environment});
      ASSERT_FALSE(outcome.front().notes.empty());
      const std::string& last = outcome.front().notes.front();
      EXPECT_NE(last.find(std::string("on the GPU: ") + algorithm), std::string::npos) << last;
      EXPECT_NE(last.find(", " + protocol), std::string::npos) << last;
    }
  }
}

// More readers of a post than one step has room for packets: then no post has packets.
TEST_F(Device, MoreRanksThanPacketsOfAStep) {
  if (!fake_gpu_) GTEST_SKIP() << "too many ranks for a GPU without blocks to spare";
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  constexpr rlim_t kEnough = 4096;  // the fake GPU takes one for each piece of memory
  if (descriptors.rlim_cur < kEnough) GTEST_SKIP() << "too few descriptors for the fake GPU";
  const Case small{What::all_reduce, tuttiFloat32, tuttiSum, 10, 0, false, 3};
  RunCases({70, "direct", true, {{"TUTTI_PROTO", "line"}, {"TUTTI_FAKE_GPU_SMS", "132"}}}, {small, small}, 4 * KiB);
}

TEST_F(Device, WithoutPeerAccess) {
  const auto cases = MixedCases(23, 2 * kWhats, 3, 256 * KiB);
  for (const bool threads : {true, false}) RunCases({3, "", threads, {{"TUTTI_GPU_P2P", "0"}}}, cases, 256 * KiB);
  // One rank's setting is enough for a pair.
  RunRanks(2,
           [&](Rank& self) {
             if (self.rank() == 1) setenv("TUTTI_GPU_P2P", "0", 1);
             DeviceRank rank(self, 64 * KiB);
             for (const auto& each : MixedCases(24, kWhats, 2, 32 * KiB)) ASSERT_EQ(rank.Run(each), "");
           },
           {.threads = false});
}

// A graph's replays between calls of other shapes on the same stream, with data that changes every time.
class GraphBetweenCalls {
 public:
  GraphBetweenCalls(Rank& self, std::uint32_t seed) : self_(self), rank_(self, kBytes), random_(seed) {
    // All ranks of a process capture in one thread, or each in a process of its own.
    for (const std::size_t count : {1, 700, 3000, 50'000}) Capture(count);
  }

  void Run() {
    for (int turn = 0; turn < 60; ++turn) {
      if (random_() % 2 == 0) {
        Replay(captured_[random_() % captured_.size()]);
      } else {
        const auto cases = MixedCases(random_() % 10'000, 1, self_.size(), kBytes - 4 * KiB);
        ASSERT_EQ(rank_.Run(cases.front()), "") << "turn " << turn;
      }
    }
  }

 private:
  static constexpr std::size_t kBytes = 256 * KiB;
  struct Captured {
    std::size_t count;
    void* graph;
  };

  void Capture(std::size_t count) {
    rank_.gpu().BeginCapture(rank_.stream());
    ASSERT_TRUE(Ok(tuttiAllReduce(rank_.arena().send(), rank_.arena().receive(), count, tuttiInt32, tuttiSum,
                                  rank_.comm(), rank_.stream())));
    ASSERT_TRUE(Ok(tuttiReduceScatter(rank_.arena().receive(), rank_.arena().send(), count / self_.size(), tuttiInt32,
                                      tuttiMax, rank_.comm(), rank_.stream())));
    captured_.push_back({count, rank_.gpu().EndCapture(rank_.stream())});
  }

  void Replay(const Captured& captured) {
    const auto value = static_cast<std::int32_t>(random_() % 1000);
    std::vector<std::int32_t> data(captured.count, value + self_.rank());
    const std::size_t bytes = data.size() * sizeof data[0];
    rank_.gpu().Put(rank_.arena().send(), data.data(), bytes);
    rank_.gpu().LaunchGraph(captured.graph, rank_.stream());
    ASSERT_TRUE(Ok(rank_.gpu().Synchronize(rank_.stream())));
    rank_.gpu().Get(data.data(), rank_.arena().receive(), bytes);
    const int n = self_.size();
    const std::int32_t sum = n * value + n * (n - 1) / 2;
    EXPECT_EQ(static_cast<std::size_t>(std::count(data.begin(), data.end(), sum)), data.size());
    const std::size_t scattered = captured.count / static_cast<std::size_t>(n);
    rank_.gpu().Get(data.data(), rank_.arena().send(), scattered * sizeof data[0]);
    EXPECT_EQ(
        static_cast<std::size_t>(std::count(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(scattered), sum)),
        scattered);
  }

  Rank& self_;
  DeviceRank rank_;
  std::mt19937 random_;
  std::vector<Captured> captured_;
};

TEST_F(Device, GraphsBetweenCalls) {
  const bool lines = WhyNoLines().empty();
  for (const Environment& way : {Environment{},
                                 {{"TUTTI_ZERO_COPY", "0"}},
                                 {{"TUTTI_GPU_P2P", "0"}},
                                 {{"TUTTI_PROTO", "line"}},
                                 {{"TUTTI_PROTO", "inline"}},
                                 {{"TUTTI_COUNT_FROM", std::to_string((1ULL << 32) - 30)}}}) {
    if (IsInline(way) && !lines) continue;
    for (const int ranks : {2, 3}) {
      RunRanks(ranks, [](Rank& self) { GraphBetweenCalls(self, 31).Run(); }, {.environment = way});
    }
  }
  if (!fake_gpu_) return;
  const Environment switched = {{"TUTTI_FAKE_GPU_DEVICES", "4"},
                                {"TUTTI_FAKE_GPU_MULTICAST", "1"},
                                {"TUTTI_TOPO_FILE", TUTTI_SOURCE_DIR "/topology/testdata/dgxh100.xml"},
                                {"TUTTI_ALGO", "nvls"}};
  RunRanks(4, [](Rank& self) { GraphBetweenCalls(self, 31).Run(); }, {.environment = switched});
}

// One thread enqueues calls and replays for all ranks and waits only at the end. Every action multiplies a buffer by the
// number of ranks, so the number of actions that took effect can be told.
TEST_F(Device, GraphsAndCallsInOneQueue) {
  for (const int ranks : {2, 3}) {
    RunAlone([ranks] {
      const Gpu gpu(0);
      std::vector<tuttiComm_t> comms(static_cast<std::size_t>(ranks));
      InitAllOnOneGpu(comms.data(), ranks);
      const auto stream = gpu.NewStream(), other = gpu.NewStream();
      const std::size_t counts[] = {1, 500, 3000, 40'000};
      constexpr std::size_t kMost = 40'000;
      struct Buffer {
        std::size_t count;
        std::uint32_t* data;
        std::uint32_t expected = 1;
        void* graph = nullptr;
        std::uint32_t replay_factor = 1;
      };
      std::vector<Buffer> buffers;
      const auto n = static_cast<std::uint32_t>(ranks);
      const auto call = [&](const Buffer& buffer, int calls) {
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        for (int i = 0; i < calls; ++i) {
          for (std::size_t r = 0; r < comms.size(); ++r) {
            auto* const mine = buffer.data + r * kMost;
            ASSERT_TRUE(Ok(tuttiAllReduce(mine, mine, buffer.count, tuttiUint32, tuttiSum, comms[r], stream)));
          }
        }
        ASSERT_TRUE(Ok(tuttiGroupEnd()));
      };
      const auto power = [&](int calls) {
        std::uint32_t result = 1;
        for (int i = 0; i < calls; ++i) result *= n;
        return result;
      };
      for (const std::size_t count : counts) {
        auto* const data = reinterpret_cast<std::uint32_t*>(gpu.AllocateShared(n * kMost * sizeof(std::uint32_t)));
        std::fill_n(data, n * kMost, 1);
        Buffer buffer{count, data};
        const int calls = count == 500 ? 20 : 2;  // more works than a kernel's parameter holds
        gpu.BeginCapture(stream);
        call(buffer, calls);
        buffer.graph = gpu.EndCapture(stream);
        buffer.replay_factor = power(calls);
        buffers.push_back(buffer);
      }
      std::mt19937 random(7);
      for (int action = 0; action < 300; ++action) {
        Buffer& buffer = buffers[random() % buffers.size()];
        switch (random() % 3) {
          case 0: {
            const int calls = random() % 8 == 0 ? 18 : 1;
            call(buffer, calls);
            buffer.expected *= power(calls);
            break;
          }
          case 1:
            gpu.LaunchGraph(buffer.graph, stream);
            buffer.expected *= buffer.replay_factor;
            break;
          default:
            gpu.Follow(other, stream);
            gpu.LaunchGraph(buffer.graph, other);
            gpu.Follow(stream, other);
            buffer.expected *= buffer.replay_factor;
        }
      }
      ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
      for (const Buffer& buffer : buffers) {
        for (std::size_t r = 0; r < comms.size(); ++r) {
          const auto* const mine = buffer.data + r * kMost;
          ASSERT_EQ(static_cast<std::size_t>(std::count(mine, mine + buffer.count, buffer.expected)), buffer.count);
        }
      }
      for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    });
  }
}

// The launch on the second device needs more memory than a kernel's parameter, while the first device's kernel already
// waits for it.
// Threads' ranks are launched together by the first rank's thread if it waits, and by the last one's if it sleeps or comes
// last itself.
TEST_F(Device, RanksThatShareAGpuCallInAnyOrder) {
  constexpr int kRanks = 4, kCalls = 40;
  RunRanks(kRanks, [](Rank& self) {
    DeviceRank rank(self, 64 * KiB);
    std::mt19937 random(static_cast<unsigned>(self.rank()));
    auto* const value = rank.arena().send();
    const std::uint32_t one = 1;
    rank.gpu().Put(value, &one, sizeof one);
    for (int call = 0; call < kCalls; ++call) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 4 * 150));
      const auto op = call % 4 == 0 ? tuttiSum : tuttiMax;
      ASSERT_TRUE(Ok(tuttiAllReduce(value, value, 1, tuttiUint32, op, rank.comm(), rank.stream())));
    }
    ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
    std::uint32_t got = 0;
    rank.gpu().Get(&got, value, sizeof got);
    EXPECT_EQ(got, 1U << 2 * kCalls / 4);  // four ranks: each sum shifts by two
    self.Meet();
  });
}

TEST_F(Device, LongGroupsOnTwoDevices) {
  RunAlone(
      [] {
        constexpr int kRanks = 2, kCalls = 40, kRounds = 5;
        tuttiComm_t comms[kRanks];
        std::vector<std::unique_ptr<Gpu>> gpus;
        std::vector<int> devices;
        for (int r = 0; r < kRanks; ++r) {
          gpus.push_back(std::make_unique<Gpu>(r));
          devices.push_back(gpus.back()->ordinal());
        }
        ASSERT_TRUE(Ok(tuttiCommInitAll(comms, kRanks, devices.data())));
        std::vector<std::byte*> memory;
        std::vector<tuttiStream_t> streams;
        for (int r = 0; r < kRanks; ++r) {
          const Gpu& gpu = *gpus[static_cast<std::size_t>(r)];
          gpu.MakeCurrent();
          memory.push_back(gpu.Allocate(KiB));
          streams.push_back(gpu.NewStream());
          const std::int32_t one = 1;
          gpu.Put(memory.back(), &one, sizeof one);
        }
        for (int round = 0; round < kRounds; ++round) {
          ASSERT_TRUE(Ok(tuttiGroupStart()));
          for (int call = 0; call < kCalls; ++call) {
            for (int r = 0; r < kRanks; ++r) {
              const auto at = static_cast<std::size_t>(r);
              ASSERT_TRUE(Ok(tuttiAllReduce(memory[at], memory[at], 1, tuttiInt32, call == 0 ? tuttiSum : tuttiMax,
                                            comms[r], streams[at])));
            }
          }
          ASSERT_TRUE(Ok(tuttiGroupEnd()));
        }
        for (int r = 0; r < kRanks; ++r) {
          const auto at = static_cast<std::size_t>(r);
          ASSERT_TRUE(Ok(gpus[at]->Synchronize(streams[at])));
          std::int32_t got = 0;
          gpus[at]->MakeCurrent();
          gpus[at]->Get(&got, memory[at], sizeof got);
          EXPECT_EQ(got, 1 << kRounds);
        }
        for (auto* comm : comms) ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
      },
      {.environment = {{"TUTTI_FAKE_GPU_DEVICES", "2"}, {"TUTTI_FAKE_GPU_ALLOCATIONS_WAIT", "1"}}});
}

// A plan reaches the GPU in stream order; the caller waits for nothing.
TEST_F(Device, NewShapesDoNotWait) {
  if (!fake_gpu_) GTEST_SKIP() << "no GPU counts the waits";
  RunRanks(2,
           [](Rank& self) {
             DeviceRank rank(self, 256 * KiB);
             ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
             self.Meet();
             const auto before = Gpu::Waits();
             for (std::size_t count = 1; count < 40'000; count = count * 3 + 1) {
               ASSERT_TRUE(Ok(tuttiAllReduce(rank.arena().send(), rank.arena().receive(), count, tuttiFloat, tuttiSum,
                                             rank.comm(), rank.stream())));
             }
             EXPECT_EQ(Gpu::Waits(), before);
             ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
             self.Meet();
           },
           {.threads = false});
}

}  // namespace
}  // namespace tutti::testing
