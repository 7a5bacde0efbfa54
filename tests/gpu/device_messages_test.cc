// Messages between GPUs, in as many channels as their links need: of any length, many at once, and where both sides run
// them by different numbers of blocks.
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "testing/device_rank.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

using Environment = std::vector<std::pair<std::string, std::string>>;

// A message's bytes tell its sender, its receiver and its round.
std::vector<std::uint32_t> Content(int from, int to, std::uint32_t round, std::size_t bytes) {
  std::vector<std::uint32_t> words((bytes + 3) / 4);
  std::uint32_t state =
      static_cast<std::uint32_t>(from) * 0x9e3779b9U + static_cast<std::uint32_t>(to) * 0x85ebca6bU + round;
  for (auto& word : words) word = state = state * 1664525 + 1013904223;
  return words;
}

void Fill(DeviceRank& rank, std::byte* at, int from, int to, std::uint32_t round, std::size_t bytes) {
  rank.gpu().Put(at, Content(from, to, round, bytes).data(), bytes);
}

void ExpectFilled(DeviceRank& rank, const std::byte* at, int from, int to, std::uint32_t round, std::size_t bytes) {
  const auto expected = Content(from, to, round, bytes);
  std::vector<std::uint32_t> got(expected.size());
  rank.gpu().Get(got.data(), at, bytes);
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), bytes), 0)
      << bytes << " B from " << from << " to " << to << ", round " << round;
}

// Sends to and receives from each peer, `bytes` at a time, in one group with `also`.
void Exchange(
    DeviceRank& rank, const std::vector<int>& to, const std::vector<int>& from, std::size_t bytes,
    const std::function<void()>& also = [] {}) {
  auto& arena = rank.arena();
  ASSERT_TRUE(Ok(tuttiGroupStart()));
  for (std::size_t i = 0; i < to.size(); ++i)
    ASSERT_TRUE(Ok(tuttiSend(arena.send() + i * bytes, bytes, tuttiUint8, to[i], rank.comm(), rank.stream())));
  for (std::size_t i = 0; i < from.size(); ++i)
    ASSERT_TRUE(Ok(tuttiRecv(arena.receive() + i * bytes, bytes, tuttiUint8, from[i], rank.comm(), rank.stream())));
  also();
  ASSERT_TRUE(Ok(tuttiGroupEnd()));
}

std::vector<int> Others(const Rank& self) {
  std::vector<int> others;
  for (int r = 0; r < self.size(); ++r) {
    if (r != self.rank()) others.push_back(r);
  }
  return others;
}

struct Machine {
  std::string name;
  bool threads;
  Environment environment;
};

class DeviceMessages : public Device, public ::testing::WithParamInterface<Machine> {
 protected:
  static RunOptions Options() { return {.threads = GetParam().threads, .environment = GetParam().environment}; }
  static bool LaunchesTogether() { return GetParam().environment.front() == kOneGpu; }
};

// Around every length at which a message takes another protocol, or more channels.
TEST_P(DeviceMessages, OfAnyLengthArrive) {
  RunRanks(
      2,
      [](Rank& self) {
        DeviceRank rank(self, 3 * MiB);
        const int peer = 1 - self.rank();
        std::uint32_t round = 0;
        std::vector<std::size_t> lengths = {0, 1, 7, 3 * MiB - 5};
        for (std::size_t power = 64; power <= 2 * MiB; power *= 2) {
          for (const std::size_t length : {power - 1, power, power + 1}) lengths.push_back(length);
        }
        for (const std::size_t bytes : lengths) {
          Fill(rank, rank.arena().send(), self.rank(), peer, ++round, bytes);
          Exchange(rank, {peer}, {peer}, bytes);
          ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
          ExpectFilled(rank, rank.arena().receive(), peer, self.rank(), round, bytes);
        }
      },
      Options());
}

// Several messages to one peer are one queue; with another number of them on the other side.
TEST_P(DeviceMessages, KeepTheirOrder) {
  if (LaunchesTogether()) GTEST_SKIP() << "ranks of one GPU bring equally many messages";
  RunRanks(
      2,
      [](Rank& self) {
        constexpr std::size_t kBytes = 200 * KiB;
        constexpr int kMessages = 4;
        DeviceRank rank(self, kMessages * kBytes);
        for (int m = 0; m < kMessages; ++m)
          Fill(rank, rank.arena().send() + m * kBytes, 0, 1, static_cast<std::uint32_t>(m), kBytes);
        if (self.rank() == 0) return Exchange(rank, std::vector<int>(kMessages, 1), {}, kBytes);
        for (int m = 0; m < kMessages; ++m) {
          Exchange(rank, {}, {0}, kBytes);
          ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
          ExpectFilled(rank, rank.arena().receive(), 0, 1, static_cast<std::uint32_t>(m), kBytes);
        }
      },
      Options());
}

TEST_P(DeviceMessages, InGraphsWithCollectives) {
  if (LaunchesTogether()) GTEST_SKIP() << "ranks of one GPU are captured by one thread";
  RunRanks(
      2,
      [](Rank& self) {
        constexpr std::size_t kBytes = 300 * KiB;
        constexpr int kReplays = 3;
        DeviceRank rank(self, kBytes);
        auto* const sum = rank.gpu().Allocate(sizeof(std::uint32_t));
        const std::uint32_t one = 1;
        rank.gpu().Put(sum, &one, sizeof one);
        const int peer = 1 - self.rank();
        rank.gpu().BeginCapture(rank.stream());
        Exchange(rank, {peer}, {peer}, kBytes, [&] {
          ASSERT_TRUE(Ok(tuttiAllReduce(sum, sum, 1, tuttiUint32, tuttiSum, rank.comm(), rank.stream())));
        });
        auto* const graph = rank.gpu().EndCapture(rank.stream());
        for (int replay = 0; replay < kReplays; ++replay) {
          Fill(rank, rank.arena().send(), self.rank(), peer, static_cast<std::uint32_t>(replay), kBytes);
          rank.gpu().LaunchGraph(graph, rank.stream());
          ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
          ExpectFilled(rank, rank.arena().receive(), peer, self.rank(), static_cast<std::uint32_t>(replay), kBytes);
        }
        std::uint32_t got = 0;
        rank.gpu().Get(&got, sum, sizeof got);
        EXPECT_EQ(got, 1U << kReplays);
      },
      Options());
}

// As many channels as NVLinks of a DGX H100 need, or as there are.
const std::pair<std::string, std::string> kTopology = {"TUTTI_TOPO_FILE",
                                                       TUTTI_SOURCE_DIR "/topology/testdata/dgxh100.xml"};
const std::pair<std::string, std::string> kMany = {"TUTTI_MIN_CHANNELS", "32"};

Environment Two(const std::vector<std::pair<std::string, std::string>>& more) {
  Environment environment = {{"TUTTI_FAKE_GPU_DEVICES", "2"}, {"CUDA_VISIBLE_DEVICES", "0,1"}};
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

INSTANTIATE_TEST_SUITE_P(
    On, DeviceMessages,
    ::testing::Values(
        Machine{"two_devices", false, Two({kTopology})}, Machine{"two_devices_of_a_process", true, Two({kMany})},
        Machine{"pcie", false, Two({kMany, {"TUTTI_FAKE_GPU_NVLINK", "0"}})},
        Machine{"host_memory", false, Two({kMany, {"TUTTI_FAKE_GPU_PEERS", "0"}})},
        Machine{"two_hosts", false, Two({kMany, {"TUTTI_VIRTUAL_HOSTS", "2"}})},
        Machine{"one_device", true, {kOneGpu, kMany}}, Machine{"packets", false, Two({kMany, {"TUTTI_PROTO", "line"}})},
        Machine{"no_packets", false, Two({kMany, {"TUTTI_PROTO", "^line"}})},
        Machine{"bulk", false, Two({kMany, {"TUTTI_PROTO", "bulk"}})},
        Machine{
            "lines_on_one_device", true, {kOneGpu, kMany, {"TUTTI_PROTO", "inline"}, {"TUTTI_VIRTUAL_HOSTS", "1"}}}),
    [](const auto& info) { return info.param.name; });

// Rank 0 sends to all others in one group, by two blocks each; each of them receives alone, by eight.
TEST_F(Device, MessagesOfUnlikeGroups) {
  if (!fake_gpu_) GTEST_SKIP() << "a GPU has room for all blocks";
  RunRanks(4,
           [](Rank& self) {
             constexpr std::size_t kBytes = 700 * KiB;
             DeviceRank rank(self, 3 * kBytes);
             for (std::uint32_t round = 0; round < 3; ++round) {
               for (int to = 1; to < 4; ++to) Fill(rank, rank.arena().send() + (to - 1) * kBytes, 0, to, round, kBytes);
               Exchange(rank, self.rank() == 0 ? std::vector{1, 2, 3} : std::vector<int>{},
                        self.rank() == 0 ? std::vector<int>{} : std::vector{0}, kBytes);
               ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
               if (self.rank() > 0) ExpectFilled(rank, rank.arena().receive(), 0, self.rank(), round, kBytes);
             }
           },
           {.threads = false,
            .environment = {{"TUTTI_FAKE_GPU_DEVICES", "4"},
                            {"CUDA_VISIBLE_DEVICES", "0,1,2,3"},
                            {"TUTTI_FAKE_GPU_SMS", "4"},
                            kMany}});
}

// The 14 messages have at least two channels each, but the GPUs hold 24 blocks, some of which a collective takes.
TEST_F(Device, AnAllToAllOfEightRanksFitsTheBlocks) {
  if (!fake_gpu_) GTEST_SKIP() << "a GPU has room for all blocks";
  RunRanks(8,
           [](Rank& self) {
             constexpr std::size_t kBytes = 150 * KiB;
             DeviceRank rank(self, 7 * kBytes);
             auto* const sum = rank.gpu().Allocate(sizeof(std::uint32_t));
             const std::uint32_t one = 1;
             rank.gpu().Put(sum, &one, sizeof one);
             const auto others = Others(self);
             for (std::size_t i = 0; i < others.size(); ++i)
               Fill(rank, rank.arena().send() + i * kBytes, self.rank(), others[i], 1, kBytes);
             Exchange(rank, others, others, kBytes, [&] {
               ASSERT_TRUE(Ok(tuttiAllReduce(sum, sum, 1, tuttiUint32, tuttiSum, rank.comm(), rank.stream())));
             });
             ASSERT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
             for (std::size_t i = 0; i < others.size(); ++i)
               ExpectFilled(rank, rank.arena().receive() + i * kBytes, others[i], self.rank(), 1, kBytes);
             std::uint32_t got = 0;
             rank.gpu().Get(&got, sum, sizeof got);
             EXPECT_EQ(got, 8U);
           },
           {.threads = false,
            .environment = {{"TUTTI_FAKE_GPU_DEVICES", "8"},
                            {"CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"},
                            {"TUTTI_FAKE_GPU_SMS", "12"},
                            {"TUTTI_MIN_CHANNELS", "2"},
                            kTopology}});
}

}  // namespace
}  // namespace tutti::testing
