#include "interop/torch/csrc/workers.h"

#include <algorithm>
#include <utility>

#include "interop/torch/csrc/quiet_thread.h"

namespace tutti::pytorch {
namespace {

bool IsCaller(const std::thread& thread) { return thread.get_id() == std::this_thread::get_id(); }

}  // namespace

void Workers::Call(std::function<void()> work) {
  JoinEnded();
  if (has_spare_ && !is_called_) {
    is_called_ = true;
    called_.notify_one();
  } else {
    threads_.push_back(QuietThread(std::move(work)));
  }
  on_duty_ = true;
}

bool Workers::Return(std::unique_lock<std::mutex>& lock) {
  if (!on_duty_) {
    on_duty_ = true;
    return true;
  }
  if (has_spare_ || dismissed_) return false;
  has_spare_ = true;
  called_.wait(lock, [this] { return is_called_ || dismissed_; });
  has_spare_ = false;
  return std::exchange(is_called_, false);
}

void Workers::End() {
  const auto self = std::find_if(threads_.begin(), threads_.end(), IsCaller);
  if (self != threads_.end()) ended_.splice(ended_.end(), threads_, self);  // else another thread is joining it
}

// Threads in `ended_` have released the lock for the last time, so this does not block for long.
void Workers::JoinEnded() {
  for (auto& thread : ended_) thread.join();
  ended_.clear();
}

void Workers::Dismiss() {
  dismissed_ = true;
  called_.notify_all();
}

void Workers::Join(std::unique_lock<std::mutex>& lock) {
  const auto another = [this] {
    return std::find_if(threads_.begin(), threads_.end(), [](const auto& thread) { return !IsCaller(thread); });
  };
  for (auto next = another(); next != threads_.end(); next = another()) {
    auto thread = std::move(*next);
    threads_.erase(next);
    lock.unlock();
    thread.join();
    lock.lock();
  }
  JoinEnded();
  for (auto& self : threads_) self.detach();
  threads_.clear();
}

bool Workers::IsOneOfThem() const { return std::any_of(threads_.begin(), threads_.end(), IsCaller); }

}  // namespace tutti::pytorch
