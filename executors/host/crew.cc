#include "executors/host/crew.h"

#include <sched.h>

#include "base/quiet_thread.h"

namespace tutti {

Crew::Crew(int helpers) {
  for (int i = 1; i <= helpers; ++i) threads_.push_back(QuietThread([this, i] { Serve(i); }));
}

Crew::~Crew() {
  ending_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Crew::Work(const std::function<void(int)>& job) {
  job_ = &job;
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  job(0);
  while (helpers_busy()) sched_yield();
}

void Crew::Serve(int index) {
  std::uint32_t seen = 0;
  for (;;) {
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (ending_.load(std::memory_order_relaxed)) return;
    (*job_)(index);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace tutti
