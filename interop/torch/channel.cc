#include "interop/torch/channel.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "interop/torch/failure.h"

namespace tutti::pytorch {
namespace {

// The worker lets a task lie for one to two of these, for somebody may be about to wait for it. Much longer than from
// issuing to waiting in a synchronous call; short beside what is worth doing at the same time.
constexpr auto kPatience = std::chrono::microseconds(400);
// So often in a row it finds nothing before it sleeps until it is woken.
constexpr int kLooksBeforeSleep = 50;
// How long a closing channel goes on with what nobody waited for.
constexpr auto kGrace = std::chrono::seconds(5);

// A thread made while this lives gets no signals: they are the program's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Channel::Channel(Maker make) : make_(std::move(make)) {}

Channel::~Channel() = default;

void Channel::StartWorker() {
  if (worker_.joinable()) return;
  const SignalsBlocked blocked;
  worker_ = std::thread([self = shared_from_this()] { self->Work(); });
}

void Channel::Issue(std::shared_ptr<Task> task) {
  const std::lock_guard lock(mutex_);
  if (closing_) throw Failure(tuttiInvalidUsage, "tutti: the process group was destroyed");
  StartWorker();
  queue_.push_back(std::move(task));
  waiting_.fetch_add(1, std::memory_order_relaxed);
  if (queue_.size() > 1) hurry_ = true;
  if (hurry_ || worker_sleeps_) worker_wakes_.notify_one();
}

void Channel::Wait(const Task& task) {
  if (task.IsDone()) return;
  std::unique_lock lock(mutex_);
  while (!task.IsDone()) {
    if (running_ || queue_.empty()) {
      changed_.wait(lock);
    } else {
      RunHead(lock);
    }
  }
}

bool Channel::WaitFor(const Task& task, std::chrono::milliseconds time) {
  Hurry();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return task.IsDone(); });
}

void Channel::Hurry() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty() || hurry_) return;
  hurry_ = true;
  worker_wakes_.notify_one();
}

void Channel::RunHead(std::unique_lock<std::mutex>& lock) {
  const auto task = std::move(queue_.front());
  queue_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  current_ = task;
  running_ = true;
  ++begun_;
  if (queue_.empty()) hurry_ = false;
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
  if (!queue_.empty()) {
    // Who waits for one of these may as well run it; if nobody does, the worker is to.
    changed_.notify_all();
    if (hurry_) worker_wakes_.notify_one();
  }
  lock.unlock();
  task->error_ = task->Ended(error);
  lock.lock();
  // Released for IsDone, which is asked without the lock. Under the lock, so that a waiter that saw it undone is
  // already waiting to be notified.
  task->done_.store(true, std::memory_order_release);
  if (current_ == task) current_.reset();
  changed_.notify_all();
}

// Only one thread is here at a time (running_), and the lock orders one's writes before the next one's reads.
void Channel::RunOnCommunicator(Task& task) {
  if (!make_) return task.Run(nullptr);
  if (not_made_ != nullptr) std::rethrow_exception(not_made_);
  if (communicator_ == nullptr) {
    try {
      auto made = make_(cancelled_);
      const std::lock_guard lock(mutex_);
      communicator_ = std::move(made);
    } catch (...) {
      not_made_ = std::current_exception();
      throw;
    }
    if (cancelled_.load(std::memory_order_relaxed)) communicator_->Stop();
  }
  task.Run(communicator_->get());
}

void Channel::Work() {
  std::unique_lock lock(mutex_);
  unsigned seen = 0;    // how many had begun at the last look
  bool waited = false;  // whether there was one waiting then
  int idle = 0;
  for (;;) {
    const bool can_run = !running_ && !queue_.empty();
    if (can_run && (hurry_ || closing_ || (waited && seen == begun_))) {
      hurry_ = true;  // it turned out that nobody waits: the rest is taken without looking twice
      RunHead(lock);
      waited = false;
      idle = 0;
      continue;
    }
    if (closing_ && queue_.empty()) return;
    idle = begun_ == seen && queue_.empty() && !running_ ? idle + 1 : 0;
    seen = begun_;
    waited = can_run;
    if (idle < kLooksBeforeSleep) {
      worker_wakes_.wait_for(lock, kPatience);
    } else {
      worker_sleeps_ = true;
      worker_wakes_.wait(lock);
      worker_sleeps_ = false;
      idle = 0;
    }
  }
}

bool Channel::OnlyAbandonableLeft() const {
  return (current_ == nullptr || current_->Abandonable()) &&
         std::all_of(queue_.begin(), queue_.end(), [](const auto& task) { return task->Abandonable(); });
}

// REQUIRES: the lock is held.
void Channel::StopCommunicator() {
  cancelled_.store(true, std::memory_order_relaxed);
  if (communicator_ != nullptr) communicator_->Stop();
}

void Channel::Close() {
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    worker_wakes_.notify_one();
    changed_.wait_for(lock, kGrace, [this] { return OnlyAbandonableLeft(); });
    if (current_ != nullptr || !queue_.empty()) StopCommunicator();
  }
  if (worker_.get_id() == std::this_thread::get_id()) {
    // The group's last owner was a callback. The worker finds the queue empty when it comes back, and is the last
    // owner.
    worker_.detach();
    return;
  }
  if (worker_.joinable()) worker_.join();
  std::unique_ptr<Communicator> freed;  // without the lock
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !running_; });
  freed = std::move(communicator_);
  lock.unlock();
}

}  // namespace tutti::pytorch
