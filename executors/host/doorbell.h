// Waking ranks that sleep. A rank goes to sleep only after a long wait; everybody else looks at one shared count after
// each step and rings if it is not zero.
//
// The count and the slots' flags form a Dekker pair: a publisher stores a flag and then loads the count, a sleeper
// raises the count and then loads the flag. Instead of a full fence on every publish, the sleeper - who has time -
// makes every running thread of the registered processes execute one (membarrier, global expedited).
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>

#include "transports/fabric.h"

namespace tutti {

void WakeAll(Fabric& fabric);

inline void WakeSleepers(Fabric& fabric) {
  // Keeps the compiler from moving the load before the publishing stores; the sleeper's membarrier binds the processor.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (fabric.sleepers().load(std::memory_order_relaxed) != 0) [[unlikely]]
    WakeAll(fabric);
}

class Sleeper {
 public:
  explicit Sleeper(Fabric& fabric);

  // Sleeps until rung, or `limit` has passed, or `ready()` is true after the alarm was set.
  template <typename Ready>
  void Sleep(std::chrono::microseconds limit, Ready&& ready) {
    const auto bell = SetAlarm();
    if (!ready()) Wait(bell, limit);
    ClearAlarm();
  }

 private:
  std::uint32_t SetAlarm();
  void Wait(std::uint32_t bell, std::chrono::microseconds limit);
  void ClearAlarm();

  Fabric& fabric_;
  bool barrier_;  // membarrier works here; without it sleeps are short instead
};

}  // namespace tutti
