// Distinguishes this process from the processes that it was forked from.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

// The process that made an object. To ask whether that is the calling process costs one load and a comparison.
class Birthmark {
 public:
  Birthmark();
  bool OfThisProcess() const { return own_.load(std::memory_order_relaxed) == mark_; }

 private:
  const std::atomic<std::uint64_t>& own_;  // the calling process's mark; 0 in a forked child without one
  std::uint64_t mark_;
};

}  // namespace tutti
