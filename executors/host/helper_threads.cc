#include "executors/host/helper_threads.h"

#include <sched.h>

#include "base/threads/quiet_thread.h"

namespace tutti::host {
namespace {

void End(std::atomic<bool>& ending, std::atomic<std::uint32_t>& generation, std::vector<std::thread>& threads) {
  ending.store(true, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_release);
  generation.notify_all();
  for (auto& thread : threads) thread.join();
}

}  // namespace

HelperThreads::HelperThreads(int helpers) {
  threads_.reserve(static_cast<std::size_t>(helpers));
  try {
    for (int i = 1; i <= helpers; ++i) threads_.push_back(QuietThread([this, i] { Serve(i); }));
  } catch (...) {
    // The system cannot start more threads. Ends those that were started.
    End(ending_, generation_, threads_);
    throw;
  }
}

HelperThreads::~HelperThreads() { End(ending_, generation_, threads_); }

void HelperThreads::Work(const std::function<void(int)>& job) {
  job_ = &job;
  modes_ = FloatModes::OfThisThread();
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  job(0);
  while (busy_.load(std::memory_order_acquire) > 0) sched_yield();
}

void HelperThreads::Serve(int index) {
  std::uint32_t seen = 0;
  for (;;) {
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (ending_.load(std::memory_order_relaxed)) return;
    modes_.Apply();
    (*job_)(index);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace tutti::host
