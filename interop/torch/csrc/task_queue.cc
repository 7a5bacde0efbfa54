#include "interop/torch/csrc/task_queue.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

// The worker leaves a task queued for one to two of these, because a thread may be about to wait for it. This is much
// longer than a synchronous call takes from issue to wait, and short compared with work worth overlapping.
constexpr std::chrono::microseconds kPatience{400};
// After this many polls in a row that find nothing, the worker sleeps until it is woken.
constexpr int kLooksBeforeSleep = 50;
// How often the worker looks where LooksRarely. Each look takes a core from a rank that is in the middle of a short call: at
// 400 us, one all-reduce of 8 KiB in a hundred took 60 us instead of 7.
constexpr std::chrono::microseconds kPatienceWithWaiters{5000};
// How long a closing queue keeps running tasks that no thread waited for.
constexpr auto kGrace = std::chrono::seconds(5);

// The tasks whose callbacks the calling thread is in, innermost first.
struct InCallbacks {
  const Task* task;
  const InCallbacks* outer;
};

thread_local const InCallbacks* innermost = nullptr;

}  // namespace

bool Task::CallbacksRunHere() const {
  for (const auto* each = innermost; each != nullptr; each = each->outer) {
    if (each->task == this) return true;
  }
  return false;
}

TaskQueue::TaskQueue(Maker make) : make_(std::move(make)) {}

TaskQueue::~TaskQueue() = default;

// REQUIRES: the lock is held.
void TaskQueue::EnsureWorker() {
  if (workers_.IsOnDuty()) return;
  try {
    workers_.Call([self = shared_from_this()] { self->Work(); });
  } catch (const std::system_error& error) {
    throw Failure(tuttiSystemError, std::string("tutti: cannot start a thread for the process group: ") + error.what());
  }
}

void TaskQueue::Issue(std::shared_ptr<Task> task) {
  const std::lock_guard lock(mutex_);
  if (closing_) throw Failure(tuttiInvalidUsage, "tutti: the process group was destroyed");
  EnsureWorker();
  if (LooksRarely()) task->issued_ = Clock::now();
  tasks_.push_back(std::move(task));
  waiting_.fetch_add(1, std::memory_order_relaxed);
  if (tasks_.size() > 1) hurry_ = true;
  if (hurry_ || worker_sleeps_) worker_wakes_.notify_one();
}

void TaskQueue::Wait(const Task& task) {
  if (task.IsDone()) return;
  std::unique_lock lock(mutex_);
  while (!task.IsDone()) {
    if (running_ || tasks_.empty()) {
      changed_.wait(lock);
    } else {
      RunHead(lock, Runner::waiter);
      if (task.IsDone()) return;
      lock.lock();
    }
  }
}

bool TaskQueue::WaitFor(const Task& task, std::chrono::milliseconds time) {
  Hurry();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return task.IsDone(); });
}

void TaskQueue::Hurry() {
  const std::lock_guard lock(mutex_);
  if (tasks_.empty() || hurry_) return;
  hurry_ = true;
  worker_wakes_.notify_one();
}

bool TaskQueue::RunHead(std::unique_lock<std::mutex>& lock, Runner runner) {
  const auto task = std::move(tasks_.front());
  tasks_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  current_ = task;
  running_ = true;
  ++begun_;
  if (tasks_.empty()) hurry_ = false;
  const bool late = LooksRarely() && task->issued_ != Clock::time_point() && Clock::now() - task->issued_ > kPatience;
  if (late || runner == Runner::worker) overlapped_ = begun_;
  lock.unlock();
  std::exception_ptr error;
  try {
    RunOnCommunicator(*task);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  running_ = false;
  if (closing_) changed_.notify_all();
  if (!tasks_.empty()) {
    // A thread that waits for one of these may run it; if none waits, the worker must.
    changed_.notify_all();
    if (hurry_) worker_wakes_.notify_one();
  }
  lock.unlock();
  task->error_ = task->Ended(error);
  lock.lock();
  if (current_ == task) current_.reset();
  const bool has_callbacks = task->HasCallbacks();
  if (has_callbacks) RunCallbacks(*task, lock, runner);
  // Released for IsDone, which does not take the lock. Stored under the lock, so that a waiter that saw the task undone
  // is already waiting for the notification.
  task->done_.store(true, std::memory_order_release);
  changed_.notify_all();
  lock.unlock();
  return has_callbacks;
}

void TaskQueue::RunCallbacks(Task& task, std::unique_lock<std::mutex>& lock, Runner runner) {
  if (runner == Runner::worker) {
    workers_.Leave();
    try {
      if (!tasks_.empty()) EnsureWorker();
    } catch (const Failure&) {
      // The system has no thread left. If the callbacks wait for a queued task, they hang; otherwise this worker is
      // back soon.
    }
  }
  if (closing_) changed_.notify_all();
  lock.unlock();
  {
    const InCallbacks here{&task, innermost};
    innermost = &here;
    task.RunCallbacks();
    innermost = here.outer;
  }
  lock.lock();
}

// Only one thread is here at a time (running_), and the lock orders its writes before the next thread's reads.
void TaskQueue::RunOnCommunicator(Task& task) {
  if (!make_) return task.Run(nullptr);
  if (not_made_ != nullptr) std::rethrow_exception(not_made_);
  if (communicator_ == nullptr) {
    try {
      auto made = make_(cancelled_);
      const std::lock_guard lock(mutex_);
      communicator_ = std::move(made);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      not_made_ = std::current_exception();
      throw;
    }
    if (cancelled_.load(std::memory_order_relaxed)) communicator_->Stop();
  }
  task.Run(communicator_->get());
}

void TaskQueue::Work() {
  std::unique_lock lock(mutex_);
  unsigned seen = 0;    // begun_ at the last look
  bool waited = false;  // whether a runnable task was queued then
  int idle = 0;
  for (;;) {
    const bool can_run = !running_ && !tasks_.empty();
    if (can_run && (hurry_ || closing_ || (waited && seen == begun_))) {
      hurry_ = true;  // no thread is waiting, so take the rest without a second look
      const bool had_callbacks = RunHead(lock, Runner::worker);
      lock.lock();
      if (had_callbacks && !workers_.Return(lock)) break;
      waited = false;
      idle = 0;
      continue;
    }
    if (closing_ && tasks_.empty()) {
      workers_.Leave();
      break;
    }
    idle = begun_ == seen && tasks_.empty() && !running_ ? idle + 1 : 0;
    seen = begun_;
    waited = can_run;
    if (idle < kLooksBeforeSleep) {
      worker_wakes_.wait_for(lock, LooksRarely() && !can_run ? kPatienceWithWaiters : kPatience);
    } else {
      worker_sleeps_ = true;
      worker_wakes_.wait(lock);
      worker_sleeps_ = false;
      idle = 0;
    }
  }
  workers_.End();
}

bool TaskQueue::OnlyAbandonableLeft() const {
  return (current_ == nullptr || current_->Abandonable()) &&
         std::all_of(tasks_.begin(), tasks_.end(), [](const auto& task) { return task->Abandonable(); });
}

// REQUIRES: the lock is held.
void TaskQueue::StopCommunicator() {
  cancelled_.store(true, std::memory_order_relaxed);
  if (communicator_ != nullptr) communicator_->Stop();
}

void TaskQueue::Stop(tuttiResult_t why) {
  const std::lock_guard lock(mutex_);
  if (!cancelled_.load(std::memory_order_relaxed)) why_stopped_ = why;
  StopCommunicator();
}

tuttiResult_t TaskQueue::HowFailed() {
  const std::lock_guard lock(mutex_);
  if (cancelled_.load(std::memory_order_relaxed)) return why_stopped_;
  auto result = tuttiSuccess;
  if (communicator_ != nullptr) static_cast<void>(tuttiCommGetAsyncError(communicator_->get(), &result));
  if (not_made_ == nullptr) return result;
  try {
    std::rethrow_exception(not_made_);
  } catch (const Failure& failure) {
    return failure.code();
  } catch (...) {
    return tuttiInternalError;
  }
}

void TaskQueue::Close() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  worker_wakes_.notify_all();
  workers_.Dismiss();
  changed_.wait_for(lock, kGrace, [this] { return OnlyAbandonableLeft(); });
  if (current_ != nullptr || !tasks_.empty()) StopCommunicator();
  // If a worker's callback was the group's last owner, that worker finds the queue empty when it returns, and becomes
  // the last owner.
  const bool in_callback = workers_.IsOneOfThem();
  workers_.Join(lock);
  if (in_callback) return;
  changed_.wait(lock, [this] { return !running_; });
  const auto freed = std::move(communicator_);
  lock.unlock();  // unlock before it is freed
}

}  // namespace tutti::pytorch
