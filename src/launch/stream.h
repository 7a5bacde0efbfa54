// A host stream: a thread that runs tasks one after the other, in the order given.
//
// Thread-safety: all member functions may be called from any thread but the stream's own (except Query).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "tutti/tutti.h"

namespace tutti {

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
  // Takes no more tasks. Waits if nothing is queued; otherwise the thread goes on alone and ends with the last task.
  void Leave();

  std::uint64_t birthmark() const { return birthmark_; }

 private:
  struct State;
  static void Work(State& state);
  bool End();  // true: it is idle

  std::uint64_t birthmark_;       // of the process whose thread this is
  std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
};

// One task of several streams. Each stream stops at the task until all have come and `work` is done, in the thread of
// one of them. The task is put on all of them in one step. A stream leaves early, with tuttiRemoteError, once its
// `is_void` returns true; it is called now and then. Throws tuttiInvalidArgument if one of the streams takes no more
// tasks; then nothing is run.
//
// Streams cannot block each other for ever in this way. A task waits for the tasks before it on its streams, for those
// of its other streams to come to it, and for nothing else in this process. "Put on before" is one order for all tasks,
// because a task is put on all its streams in one step. So all streams of the first task that is not done have come to
// it. It then waits only for other ranks, and every operation bounds that wait by its own watch and timeout.
struct SharedPart {
  std::shared_ptr<Stream> stream;
  std::function<bool()> is_void;
};
void EnqueueOnAll(std::span<const SharedPart> parts, std::function<tuttiResult_t()> work);

// What a tuttiStream_t of ours points to. Such a handle may also be a CUDA stream, and be used after it was destroyed:
// only the register can tell.
tuttiStream_t NewStream();
// Waits for queued tasks. Throws what CheckedStream throws.
void DestroyStream(tuttiStream_t handle);
// Null if the handle is no stream of this library's. Throws tuttiInvalidUsage if it is a stream of the parent process.
std::shared_ptr<Stream> FindStream(tuttiStream_t handle);
// Throws tuttiInvalidArgument if the handle is no stream of this library's, and what FindStream throws.
std::shared_ptr<Stream> CheckedStream(tuttiStream_t handle);

}  // namespace tutti
