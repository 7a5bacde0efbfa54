#include "executors/host/crew.h"

#include <pthread.h>
#include <sched.h>

#include <csignal>

namespace tutti {

Crew::Crew(int helpers) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 1; i <= helpers; ++i) threads_.emplace_back([this, i] { Serve(i); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
