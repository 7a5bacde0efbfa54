// What a channel of device memory has beside its communicator: the stream on which its operations run, one after the
// other, and what became of those that have been enqueued. The collectives of a group have one lane for each device,
// and so has each sender, receiver and tag: with streams of their own they wait for nobody else's turn, as channels do
// not.
//
// Ends. A call of the library enqueues and returns. If anything goes wrong afterwards, the communicator knows it, and
// stops what is on the stream (docs/faults.md); Failure() asks the communicator. When the group is destroyed, the lane
// waits a while (kLaneGrace) for what is on its stream, and then stops it: a receive without a sender would otherwise
// last until its timeout.
//
// Thread-safety: Failure, IsOpen and the constants may be used from any thread; the scratch belongs to the channel's
// operations, which come one at a time.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "interop/torch/csrc/devices.h"
#include "interop/torch/csrc/ops/tensors.h"

namespace tutti::pytorch {

class Lane {
 public:
  // Of a device that is taken (devices.h).
  explicit Lane(c10::Device device);

  c10::Device device() const { return stream_.device(); }
  const c10::Stream& stream() const { return stream_; }
  tuttiStream_t native_stream() const { return native_stream_; }
  const Scratches& scratches() const { return scratches_; }

  // Whether the communicator has been made, so that to enqueue waits for no other rank.
  bool IsOpen() const { return open_.load(std::memory_order_acquire); }
  void Open(tuttiComm_t comm);
  // Before the communicator is freed.
  void Close();

  // What has gone wrong with what was enqueued; null: nothing so far.
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
