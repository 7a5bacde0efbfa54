#include "src/stream.h"

#include <utility>

#include "base/quiet_thread.h"

namespace tutti {

Stream::Stream() {
  thread_ = QuietThread([this] { Work(); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::Enqueue(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

tuttiResult_t Stream::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !running_; });
  return std::exchange(first_failure_, tuttiSuccess);
}

tuttiResult_t Stream::Query() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !running_ ? first_failure_ : tuttiInProgress;
}

void Stream::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    lock.unlock();
    const auto result = task();
    lock.lock();
    running_ = false;
    if (first_failure_ == tuttiSuccess) first_failure_ = result;
    changed_.notify_all();
  }
}

}  // namespace tutti
