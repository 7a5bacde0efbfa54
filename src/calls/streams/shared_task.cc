#include "src/calls/streams/shared_task.h"

#include <chrono>

#include "base/error.h"
#include "base/threads/made_once.h"

namespace tutti::calls {
namespace {

// How often a participant that waits asks whether it is void: nothing wakes it then.
constexpr std::chrono::milliseconds kLookEvery{20};

}  // namespace

tuttiResult_t SharedTask::Arrive(std::size_t participant, const std::function<bool()>& is_void) {
  // Release: the work sees what the participant's earlier tasks have done.
  arrived_[participant].store(true, std::memory_order_release);
  std::unique_lock lock(mutex_);
  ++arrivals_;
  while (!result_) {
    if (at_work_ || arrivals_ == arrivals_seen_) {
      changed_.wait_for(lock, kLookEvery);
      if (result_) break;
      const bool leaves = is_void();
      if (leaves && at_work_) return tuttiRemoteError;
      if (!leaves) continue;  // else the work may be over with that
    }
    at_work_ = true;
    arrivals_seen_ = arrivals_;
    lock.unlock();
    const auto result = work_(*this, is_void);
    if (result) work_ = nullptr;  // frees what it holds before the result is visible
    lock.lock();
    result_ = result;
    at_work_ = result.has_value();
    const bool leaves = !result && is_void();
    if (leaves) arrivals_seen_ = 0;  // another one goes on
    changed_.notify_all();
    if (leaves) return tuttiRemoteError;
  }
  return *result_;
}

void SharedTask::Open() {
  {
    const std::lock_guard lock(mutex_);
    at_work_ = false;
  }
  changed_.notify_all();
}

void SharedTask::Cancel() {
  work_ = nullptr;
  {
    const std::lock_guard lock(mutex_);
    result_ = tuttiInvalidArgument;
  }
  changed_.notify_all();
}

ForkSafeMutex& QueueingOrder() {
  static constinit MadeOnce<ForkSafeMutex> mutex;
  return mutex.Get();
}

std::shared_ptr<SharedTask> EnqueueOnAll(std::span<const Participant> participants, SharedTask::Work work) {
  const auto task = std::make_shared<SharedTask>(participants.size(), std::move(work));
  try {
    for (std::size_t i = 0; i < participants.size(); ++i) {
      const auto& [stream, is_void] = participants[i];
      if (stream != nullptr) stream->Enqueue([task, i, is_void = is_void] { return task->Arrive(i, is_void); });
    }
  } catch (...) {
    task->Cancel();
    throw;
  }
  task->Open();
  return task;
}

}  // namespace tutti::calls
