// How many thread blocks run the messages of a launch, and where all queues' blocks are in it. A message has as many
// channels as fill the link to its peer (message_table.h), and is fastest with a block for each. But a group may have
// messages to many peers, which share the rank's link, and all blocks of a launch must fit the GPU at the same time. So
// fewer blocks then run the channels, one after the other (launch.h). The peer need not know.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "executors/cuda/kernels/device_plan.h"

namespace tutti::device {

struct MessageRoom {
  std::uint32_t of_rank;  // blocks of all messages of any one rank
  std::uint32_t of_all;   // of all ranks' together
};

// Lowers `blocks` of queues of messages from their channels to what fits, but to no less than one each. REQUIRES: a rank's
// are next to each other.
void FitMessages(std::span<cuda_kernels::DeviceWorkQueue> messages, const MessageRoom& room);
// Fits the messages into what the first `collectives` queues leave of the room. Sets where each queue's blocks begin, and
// returns how many there are.
std::uint32_t PlaceBlocks(std::span<cuda_kernels::DeviceWorkQueue> queues, std::size_t collectives, MessageRoom room);

}  // namespace tutti::device
