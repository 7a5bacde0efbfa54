// Stops and continues this process at random, as a debugger or a batch system may.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>

namespace tutti::testing {

// While it lives, another process stops and continues this one. That process ends by itself, after it has continued this
// one: killed, it might leave this one stopped.
class RandomStops {
 public:
  explicit RandomStops(std::uint32_t seed) {
    void* const shared = mmap(nullptr, sizeof *over_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    over_ = new (shared) std::atomic<bool>(false);
    const pid_t stopped = getpid();
    child_ = fork();
    if (child_ < 0) std::abort();
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::mt19937 random(seed);
    while (getppid() == stopped && !over_->load(std::memory_order_relaxed)) {
      usleep(random() % 30'000);
      kill(stopped, SIGSTOP);
      usleep(random() % 60'000);
      kill(stopped, SIGCONT);
    }
    _exit(0);
  }
  ~RandomStops() {
    over_->store(true, std::memory_order_relaxed);
    waitpid(child_, nullptr, 0);
    munmap(over_, sizeof *over_);
  }
  RandomStops(const RandomStops&) = delete;
  RandomStops& operator=(const RandomStops&) = delete;

 private:
  std::atomic<bool>* over_ = nullptr;
  pid_t child_ = -1;
};

}  // namespace tutti::testing
