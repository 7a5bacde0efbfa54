#include "src/device/message_blocks.h"

#include <algorithm>

namespace tutti::device {
namespace {

// The least number of blocks that runs `channels` in as few turns as `most` blocks do.
std::uint32_t InAsFewTurns(std::uint32_t channels, std::uint32_t most) {
  if (channels <= most) return channels;
  const std::uint32_t turns = (channels + most - 1) / most;
  return (channels + turns - 1) / turns;
}

// Whether messages fit with at most `each` blocks.
bool Fit(std::span<const cuda_kernels::DeviceWorkQueue> messages, std::uint32_t each, const MessageRoom& room) {
  std::uint64_t of_all = 0, of_rank = 0;
  const cuda_kernels::DeviceRank* rank = nullptr;
  for (const auto& queue : messages) {
    if (queue.rank != rank) of_rank = 0;
    rank = queue.rank;
    const std::uint32_t blocks = InAsFewTurns(queue.blocks, each);
    of_rank += blocks;
    of_all += blocks;
    if (of_rank > room.of_rank || of_all > room.of_all) return false;
  }
  return true;
}

}  // namespace

// Each queue has the same number at the most, so that messages of equal length end at about the same time.
void FitMessages(std::span<cuda_kernels::DeviceWorkQueue> messages, const MessageRoom& room) {
  std::uint32_t each = 0;
  for (const auto& queue : messages) each = std::max(each, queue.blocks);
  while (each > 1 && !Fit(messages, each, room)) --each;
  for (auto& queue : messages) queue.blocks = InAsFewTurns(queue.blocks, each);
}

std::uint32_t PlaceBlocks(std::span<cuda_kernels::DeviceWorkQueue> queues, std::size_t collectives, MessageRoom room) {
  std::uint32_t taken = 0;
  for (const auto& queue : queues.first(collectives)) taken += queue.blocks;
  room.of_all -= std::min(room.of_all, taken);
  FitMessages(queues.subspan(collectives), room);
  std::uint32_t blocks = 0;
  for (auto& queue : queues) {
    queue.first_block = blocks;
    blocks += queue.blocks;
  }
  return blocks;
}

}  // namespace tutti::device
