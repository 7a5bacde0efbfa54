// One task shared by several streams, and perhaps by the thread that made it. Each stops at the task until the work is
// done, in the thread of one of them: the first to arrive begins, and the work itself waits for those that it needs. The
// task is put on all streams in one step. A stream leaves early, with tuttiRemoteError, once its `is_void` returns true,
// and hands the work over if it is the one at work.
//
// Thread-safety: each participant arrives once, in its own thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/fork_safe_mutex.h"
#include "src/calls/streams/stream.h"

namespace tutti::calls {

class SharedTask {
 public:
  // Called by one thread at a time, until it returns a result. Nothing: `stop`, which it calls from time to time,
  // returned true, or there is nothing to do before another participant arrives.
  using Work = std::function<std::optional<tuttiResult_t>(const SharedTask& task, const std::function<bool()>& stop)>;

  SharedTask(std::size_t participants, Work work) : arrived_(participants), work_(std::move(work)) {}

  // Returns the work's result.
  tuttiResult_t Arrive(std::size_t participant, const std::function<bool()>& is_void);
  bool HasArrived(std::size_t participant) const { return arrived_[participant].load(std::memory_order_acquire); }

  // Now the work may begin.
  void Open();
  // Some participants will not arrive, so the work is not done. REQUIRES: the task is not open.
  void Cancel();

 private:
  std::vector<std::atomic<bool>> arrived_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrivals_ = 0, arrivals_seen_ = 0;  // so far; when the work was last called
  bool at_work_ = true;                           // a thread is, or was, or may not be yet
  std::optional<tuttiResult_t> result_;
  Work work_;
};

// A participant; without a stream it is the caller, who has to Arrive().
struct Participant {
  std::shared_ptr<Stream> stream;
  std::function<bool()> is_void;
};
// Puts the work on all streams. Throws tuttiInvalidArgument, without running anything, if one of them takes no more
// tasks. REQUIRES: QueueingOrder() is held.
std::shared_ptr<SharedTask> EnqueueOnAll(std::span<const Participant> participants, SharedTask::Work work);

// Held while calls take their turns and are put on streams, so that this happens in one order for the whole process.
ForkSafeMutex& QueueingOrder();

}  // namespace tutti::calls
