#include "testing/fake_gpu/stream/thread_pool.h"

#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::fake_gpu {
namespace {

class Worker {
 public:
  Worker() {
    std::thread([this] { Loop(); }).detach();
  }

  void Do(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    task_ = std::move(task);
    changed_.notify_one();
  }

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
};

// Holds as many threads as ever ran at once. Idle ones wait here until the process ends.
class Pool {
 public:
  Worker* Take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      all_.push_back(std::make_unique<Worker>());
      return all_.back().get();
    }
    auto* worker = idle_.back();
    idle_.pop_back();
    return worker;
  }

  void Return(Worker* worker) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(worker);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> all_;
  std::vector<Worker*> idle_;
};

Pool& ThePool() {
  static auto* pool = new Pool;
  return *pool;
}

void Worker::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return task_ != nullptr; });
    const auto task = std::exchange(task_, nullptr);
    lock.unlock();
    task();
    ThePool().Return(this);
    lock.lock();
  }
}

}  // namespace

void RunTogether(std::size_t count, const std::function<void(std::size_t)>& part) {
  if (count == 0) return;
  // Shared, because the last thread to count down may still use the latch after the caller returns.
  const auto rest = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(count) - 1);
  for (std::size_t number = 1; number < count; ++number) {
    ThePool().Take()->Do([rest, number, &part] {
      part(number);
      rest->count_down();
    });
  }
  part(0);
  rest->wait();
}

}  // namespace tutti::fake_gpu
