// Tells a wait for other ranks to give up, by any of a few flags; each flag belongs to a party that may cancel.
//
// Thread-safety: value type; the flags outlive the waits and may be raised by any thread.
#pragma once

#include <array>
#include <atomic>

namespace tutti {

class Cancellation {
 public:
  // Never cancelled.
  Cancellation() = default;
  explicit Cancellation(const std::atomic<bool>& flag, const std::atomic<bool>* another = nullptr,
                        const std::atomic<bool>* third = nullptr)
      : flags_{&flag, another, third} {}

  bool possible() const { return flags_[0] != nullptr; }
  bool requested() const {
    for (const auto* flag : flags_) {
      if (flag != nullptr && flag->load(std::memory_order_relaxed)) return true;
    }
    return false;
  }

 private:
  std::array<const std::atomic<bool>*, 3> flags_{};
};

}  // namespace tutti
