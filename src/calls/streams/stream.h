// A host stream: a thread that runs tasks one after the other, in the order given.
//
// Thread-safety: all member functions may be called from any thread but the stream's own (except Query).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/process_mark.h"
#include "tutti/tutti.h"

namespace tutti::calls {

class Stream {
 public:
  using Task = std::function<tuttiResult_t()>;

  Stream();
  // Like Finish(), unless that was called before.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queues a task, which runs in the floating-point modes that the calling thread has now. REQUIRES: a task neither
  // throws nor is the last to hold its own stream. Throws tuttiInvalidArgument if the stream takes no more tasks.
  void Enqueue(Task task);
  // Waits until all that was queued before is done; returns the first failure since the last call, and forgets it.
  tuttiResult_t Synchronize();
  // tuttiInProgress while something is queued or running; else the first failure, kept.
  tuttiResult_t Query();

  // Takes no more tasks and waits until those queued are done. REQUIRES: called once at most, and not after Leave().
  void Finish();
  // Takes no more tasks. Waits if nothing is queued; otherwise the thread continues alone and ends with the last task.
  void Leave();

  const Birthmark& birthmark() const { return birthmark_; }

 private:
  struct State;
  static void Work(State& state);
  bool End();  // true: it is idle

  const Birthmark birthmark_;     // of the process whose thread this is
  std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
};

// The object behind a tuttiStream_t of this library. Such a handle may also be a CUDA stream, or be used after it was
// destroyed: only the register distinguishes these.
tuttiStream_t NewStream();
// Waits for queued tasks. Throws what CheckedStream throws.
void DestroyStream(tuttiStream_t handle);
// Null if the handle is not a stream of this library. Throws tuttiInvalidUsage if it is a stream of the parent process.
std::shared_ptr<Stream> FindStream(tuttiStream_t handle);
// Throws tuttiInvalidArgument if the handle is not a stream of this library, and what FindStream throws.
std::shared_ptr<Stream> CheckedStream(tuttiStream_t handle);

}  // namespace tutti::calls
