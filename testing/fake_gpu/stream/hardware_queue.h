// A queue of a device's hardware, which some of its streams share (TUTTI_FAKE_GPU_QUEUES). Work begins in the order in
// which it was enqueued, whatever its stream: work that has to wait holds up everything behind it.
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace tutti::fake_gpu {

class HardwareQueue {
 public:
  // The queue for a device's next stream; null: each stream has a queue of its own.
  static std::shared_ptr<HardwareQueue> ForNextStream(CUdevice device);

  // A place behind all others.
  std::uint64_t Enter();
  // Returns when all work before this place has begun.
  void AwaitTurn(std::uint64_t place);
  // The work of this place has begun. May be said again.
  void Leave(std::uint64_t place);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t entered_ = 0;
  std::uint64_t head_ = 0;
};

// Work at the head of a queue, while it lives. The stream's thread that runs the work has it.
class QueueHead {
 public:
  // Waits for its turn. `queue`: null if the stream shares none, or if the work holds no place in it.
  QueueHead(HardwareQueue* queue, std::uint64_t place);
  ~QueueHead();
  QueueHead(const QueueHead&) = delete;
  QueueHead& operator=(const QueueHead&) = delete;

  // For work, in its thread: what it had to wait for is over, and what is behind it may begin. Work that does not say so
  // holds its place to its end.
  static void Begun();

 private:
  void Leave();

  HardwareQueue* const queue_;
  const std::uint64_t place_;
};

}  // namespace tutti::fake_gpu
