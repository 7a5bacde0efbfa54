// Threads that never take the application's signals.
#pragma once

#include <thread>
#include <utility>

#include "base/signals_blocked.h"

namespace tutti {

// std::thread with all signals blocked in it from its first moment, but for those of its own faults. Throws what
// std::thread throws.
template <typename... Arguments>
std::thread QuietThread(Arguments&&... arguments) {
  const SignalsBlocked blocked;
  return std::thread(std::forward<Arguments>(arguments)...);
}

}  // namespace tutti
