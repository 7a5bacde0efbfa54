#include "src/device/message_blocks.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tutti::device {
namespace {

using Blocks = std::vector<std::uint32_t>;

// Queues with these channels, of ranks that have equally many.
struct Launch {
  Launch(const Blocks& channels, std::size_t nranks) : ranks(nranks), queues(channels.size()) {
    for (std::size_t q = 0; q < queues.size(); ++q) {
      queues[q].rank = &ranks[q * nranks / queues.size()];
      queues[q].blocks = channels[q];
    }
  }
  Blocks blocks() const {
    Blocks all;
    for (const auto& queue : queues) all.push_back(queue.blocks);
    return all;
  }

  std::vector<cuda_kernels::DeviceRank> ranks;
  std::vector<cuda_kernels::DeviceWorkQueue> queues;
};

Blocks Fitted(const Blocks& channels, const MessageRoom& room, std::size_t nranks = 1) {
  Launch launch(channels, nranks);
  FitMessages(launch.queues, room);
  return launch.blocks();
}
// One rank's, which has the GPU for itself.
Blocks Fitted(const Blocks& channels, std::uint32_t most) { return Fitted(channels, {most, UINT32_MAX}); }

TEST(MessageBlocks, AMessageAloneHasABlockForEachChannel) {
  EXPECT_EQ(Fitted({32}, 96), Blocks{32});
  EXPECT_EQ(Fitted({32, 32}, 96), (Blocks{32, 32}));
}

// Six blocks take six turns for 32 channels.
TEST(MessageBlocks, MessagesToAllOthersOfEightRanksShare) { EXPECT_EQ(Fitted(Blocks(14, 32), 96), Blocks(14, 6)); }

TEST(MessageBlocks, ShortMessagesKeepTheirs) {
  EXPECT_EQ(Fitted({1, 32, 2, 32}, 20), (Blocks{1, 8, 2, 8}));
  EXPECT_EQ(Fitted({}, 4), Blocks{});
}

// Ranks that share a GPU share its room, too. Then 11 blocks run 32 channels in three turns: to lower 32 to the 16 that a
// rank has room for, and those to the 8 that the GPU has, would take four.
TEST(MessageBlocks, TheSmallerRoomCounts) {
  EXPECT_EQ(Fitted(Blocks(4, 32), {64, 256}, 2), Blocks(4, 32));
  EXPECT_EQ(Fitted(Blocks(4, 32), {40, 256}, 2), Blocks(4, 16));
  EXPECT_EQ(Fitted(Blocks(4, 32), {1000, 48}, 2), Blocks(4, 11));
  EXPECT_EQ(Fitted(Blocks(4, 32), {40, 48}, 2), Blocks(4, 11));
}

TEST(MessageBlocks, GetWhatCollectivesLeave) {
  Launch launch({24, 40, 32, 32, 8}, 1);
  EXPECT_EQ(PlaceBlocks(launch.queues, 2, {96, 104}), 104u);
  EXPECT_EQ(launch.blocks(), (Blocks{24, 40, 16, 16, 8}));
  std::uint32_t first = 0;
  for (const auto& queue : launch.queues) {
    EXPECT_EQ(queue.first_block, first);
    first += queue.blocks;
  }
  // The launch refuses what does not fit.
  Launch too_long({24, 32}, 1);
  EXPECT_EQ(PlaceBlocks(too_long.queues, 1, {96, 16}), 25u);
}

// Whatever the group, each message has between one block and its channels, no more than fit, and none that has no turn.
TEST(MessageBlocks, AnyGroupFits) {
  std::uint32_t state = 1;
  const auto random = [&](std::uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int group = 0; group < 2000; ++group) {
    Blocks channels(1 + random(300));
    for (auto& each : channels) each = 1 + random(32);
    const std::uint32_t most = 1 + random(300);
    const auto blocks = Fitted(channels, most);
    const auto all = std::accumulate(blocks.begin(), blocks.end(), std::uint32_t{0});
    EXPECT_LE(all, std::max(most, static_cast<std::uint32_t>(channels.size())));
    for (std::size_t q = 0; q < blocks.size(); ++q) {
      ASSERT_GE(blocks[q], 1u);
      ASSERT_LE(blocks[q], channels[q]);
      const auto turns = (channels[q] + blocks[q] - 1) / blocks[q];
      EXPECT_GT(channels[q], (turns - 1) * blocks[q]);
      const auto with_one_less = blocks[q] == 1 ? channels[q] + 1 : (channels[q] + blocks[q] - 2) / (blocks[q] - 1);
      EXPECT_GT(with_one_less, turns) << "a block too many";
    }
  }
}

}  // namespace
}  // namespace tutti::device
