// The device part of a queue: the stream on which its operations run one at a time, and the outcome of those
// enqueued. A group's collectives have one task stream per device, and each (sender, receiver, tag) has its own.
// Separate streams keep them from waiting for each other's turn, as separate queues do on the host.
//
// Ending. A library call enqueues and returns. If anything fails afterwards, the communicator records it and stops the
// work on the stream (docs/faults.md); Failure() asks the communicator. When the group is destroyed, the task stream
// waits a while (kTaskStreamGrace) for the work on its stream and then stops it, since a receive without a sender would
// otherwise last until its timeout.
//
// Thread-safety: Failure, IsOpen and the constants may be used from any thread; the scratch belongs to the queue's
// operations, which run one at a time.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "interop/torch/csrc/devices.h"
#include "interop/torch/csrc/ops/tensors.h"

namespace tutti::pytorch {

class TaskStream {
 public:
  // REQUIRES: the device is accepted (devices.h).
  explicit TaskStream(c10::Device device);

  c10::Device device() const { return stream_.device(); }
  const c10::Stream& stream() const { return stream_; }
  tuttiStream_t native_stream() const { return native_stream_; }
  const Scratches& scratches() const { return scratches_; }

  // Whether the communicator exists, so that enqueuing waits for no other rank.
  bool IsOpen() const { return open_.load(std::memory_order_acquire); }
  void Open(tuttiComm_t comm);
  // Call before the communicator is freed.
  void Close();

  // The failure of an enqueued operation; null: none so far.
  std::exception_ptr Failure();

 private:
  void WaitForStream() const;

  const c10::Stream stream_;
  const tuttiStream_t native_stream_;
  const Scratches scratches_;
  std::atomic<bool> open_{false};

  std::mutex mutex_;  // guards what follows
  tuttiComm_t comm_ = nullptr;
  std::exception_ptr failure_;
};

}  // namespace tutti::pytorch
