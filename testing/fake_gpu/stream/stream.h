// Work done in order, asynchronously.
//
// Thread-safety: all of it. A stream's thread lives until the stream is closed and drained; it keeps the stream alive.
#pragma once

#include <cuda.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "testing/fake_gpu/stream/hardware_queue.h"

namespace tutti::fake_gpu {

using Work = std::function<void()>;

class Capture;
class Stream;

// A point in a stream's work: after the `ticket`-th piece of it.
struct Moment {
  std::shared_ptr<Stream> stream;
  std::uint64_t ticket = 0;

  bool Passed() const;
  void Wait() const;
  // For a call that returns when the work is done: it is counted.
  void MakeCallerWait() const;
};

std::uint64_t WaitsOfCallers();

// Whether work takes a place in its stream's hardware queue.
enum class InQueue { kYes, kNo };

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // Unless `blocking`, the null stream and this one do not wait for each other.
  Stream(CUdevice device, bool blocking)
      : device_(device), blocking_(blocking), queue_(HardwareQueue::ForNextStream(device)) {}

  CUdevice device() const { return device_; }
  bool blocking() const { return blocking_; }

  // Waits for room if the stream holds as much work as the environment allows.
  Moment Push(Work work, InQueue in_queue);
  // The moment after all work pushed so far.
  Moment Now();
  // Accepts no more work; work already pushed still runs.
  void Close();

  // The capture that the stream takes part in, if any. Guarded by the lock of captures (capture.h).
  std::shared_ptr<Capture> capture;

 private:
  friend struct Moment;
  void RunInCaller(const Work& work);
  void Drain();

  struct Pending {
    Work work;
    std::optional<std::uint64_t> place;  // in the hardware queue
  };

  const CUdevice device_;
  const bool blocking_;
  const std::shared_ptr<HardwareQueue> queue_;  // null: its own
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> work_;
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  bool has_thread_ = false;
  bool closed_ = false;
};

// The stream of a caller's handle: null and CU_STREAM_LEGACY mean the current device's null stream,
// CU_STREAM_PER_THREAD the calling thread's own.
std::shared_ptr<Stream> StreamOf(CUstream handle);
bool IsNullStream(const Stream& stream);
// All streams of `device`, including the null stream.
std::vector<std::shared_ptr<Stream>> StreamsOf(CUdevice device);
void WaitForAll(CUdevice device);

// Does the work in stream order, or records it if the stream is captured. Then the moment has no stream.
Moment Enqueue(const std::shared_ptr<Stream>& stream, Work work, InQueue in_queue = InQueue::kYes);

}  // namespace tutti::fake_gpu
