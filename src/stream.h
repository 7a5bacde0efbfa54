// A host stream: a thread that runs tasks one after the other, in the order given.
//
// Thread-safety: all member functions may be called from any thread but the stream's own (except Record).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "tutti/tutti.h"

namespace tutti {

class Stream {
 public:
  using Task = std::function<tuttiResult_t()>;

  Stream();
  // Waits for what is queued.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void Enqueue(Task task);
  // Waits until all that was queued before is done; returns the first failure since the last call, and forgets it.
  tuttiResult_t Synchronize();
  // tuttiInProgress while something is queued or running; else the first failure, kept.
  tuttiResult_t Query();

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool running_ = false;
  bool ending_ = false;
  tuttiResult_t first_failure_ = tuttiSuccess;
  std::thread thread_;  // last: it uses all of the above
};

// What a tuttiStream_t of ours points to. Such a handle may also be a CUDA stream, and be used after it was destroyed:
// only the register can tell.
tuttiStream_t NewStream();
// Waits for what is queued. Throws tuttiInvalidArgument as below.
void DestroyStream(tuttiStream_t handle);
// Null if the handle is none of our streams.
Stream* FindStream(tuttiStream_t handle);
// Throws tuttiInvalidArgument if the handle is none of our streams.
Stream& CheckedStream(tuttiStream_t handle);

}  // namespace tutti
