// Helper threads of one rank, for machines with more cores than ranks: each drives its share of a run's channels.
//
// Thread-safety: Work() is called by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/numbers/float_modes.h"

namespace tutti::host {

class HelperThreads {
 public:
  // Starts `helpers` threads besides the caller's, with all signals blocked.
  explicit HelperThreads(int helpers);
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Runs job(1) .. job(size() - 1) in the helpers, in the calling thread's floating-point modes, and job(0) here.
  // Returns when all jobs have returned. At the end it polls for the helpers, so job(0) should last as long as theirs.
  void Work(const std::function<void(int)>& job);

 private:
  void Serve(int index);

  // The release of a generation publishes `job_` and `modes_`, which helpers acquire. `busy_` goes the other way.
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> ending_{false};
  const std::function<void(int)>* job_ = nullptr;
  FloatModes modes_;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::host
