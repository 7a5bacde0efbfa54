// What ranks bring to a launch (launch_group.h), and what it takes of that.
//
// Thread-safety: value types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "executors/cuda/kernels/device_plan.h"
#include "src/device/copy_engines.h"
#include "transports/cuda/arena.h"

namespace tutti::device {

struct QueuedWork {
  cuda_kernels::DeviceWork work;
  std::uint32_t blocks = 0;             // of a message: the most
  bool alone = false;                   // no other collective is in its launch
  std::size_t copied = 0;               // bytes of its input that are copied first (Schedule::separate_input)
  std::vector<EngineCopy> followed_by;  // behind its launch
};

// Consecutive operations of one rank.
struct DeviceCalls {
  cuda_kernels::DeviceRank* rank = nullptr;
  cuda_kernels::DeviceQueue* queue = nullptr;
  std::uint64_t* lanes = nullptr;
  int peer = -1;  // for messages; -1: collectives
  bool sends = false;
  std::vector<QueuedWork> works;
  std::uint32_t threads = 0;
};

// One rank's part of a launch.
struct DevicePart {
  int rank = 0;
  std::vector<DeviceCalls> queues;
  std::uint32_t most_message_blocks = 0;         // of all its messages together, but one each at the least
  cuda_transport::DeviceArena* plans = nullptr;  // where the works' plans are written
  cuda_transport::CuStream stream = nullptr;
  std::vector<cuda_transport::CuStream> other_streams;  // their earlier work comes first, their later work after

  bool HasStream(cuda_transport::CuStream wanted) const {
    return stream == wanted || std::find(other_streams.begin(), other_streams.end(), wanted) != other_streams.end();
  }
};

inline const DeviceCalls* Collectives(const DevicePart& part) {
  for (const auto& calls : part.queues) {
    if (calls.peer < 0) return &calls;
  }
  return nullptr;
}

// How many of the collectives one launch may run. One whose steps name other ranks' buffers runs alone, and so does one that
// copies follow: the ends of launches order it among the others, on all ranks.
inline std::size_t CollectivesOfOneLaunch(const DeviceCalls& calls) {
  const auto first_alone = std::ranges::find(calls.works, true, &QueuedWork::alone) - calls.works.begin();
  return std::max<std::size_t>(1, static_cast<std::size_t>(first_alone));
}

// The inputs of one launch.
struct Bundle {
  std::vector<int> ranks;
  std::vector<cuda_kernels::DeviceWorkQueue> queues;
  std::vector<cuda_kernels::DeviceWork> works;
  std::vector<std::size_t> copied;  // by work (QueuedWork)
  std::vector<EngineCopy> followed_by;
  std::vector<cuda_transport::CuStream> streams;  // the first is the launch stream
  std::vector<cuda_transport::DeviceArena*> plans;
  std::uint32_t message_blocks = UINT32_MAX;  // the most that one rank's messages may have
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t collective_queues = 0;  // they are the first
  bool per_thread_elsewhere = false;    // one of them is another thread's own default stream

  void AddStream(cuda_transport::CuStream stream) {
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
  // Takes the part's first `together` collectives, or all of its messages.
  void Take(DevicePart& part, bool collectives, std::size_t together) {
    message_blocks = std::min(message_blocks, part.most_message_blocks);
    for (auto& calls : part.queues) {
      if ((calls.peer < 0) != collectives) continue;
      const std::size_t taken = collectives ? std::min(together, calls.works.size()) : calls.works.size();
      auto& queue = queues.emplace_back();
      queue = {calls.rank,
               calls.queue,
               calls.lanes,
               0,
               0,
               static_cast<std::uint32_t>(works.size()),
               static_cast<std::uint32_t>(taken)};
      if (collectives) ++collective_queues;
      threads = std::max(threads, calls.threads);
      for (std::size_t w = 0; w < taken; ++w) {
        const QueuedWork& each = calls.works[w];
        queue.blocks = std::max(queue.blocks, each.blocks);
        works.push_back(each.work);
        copied.push_back(each.copied);
        followed_by.insert(followed_by.end(), each.followed_by.begin(), each.followed_by.end());
      }
      calls.works.erase(calls.works.begin(), calls.works.begin() + static_cast<std::ptrdiff_t>(taken));
    }
    std::erase_if(part.queues, [](const DeviceCalls& calls) { return calls.works.empty(); });
  }
};

}  // namespace tutti::device
