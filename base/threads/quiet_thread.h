// Threads that never take the application's signals.
#pragma once

#include <thread>
#include <utility>

#include "base/threads/signals_blocked.h"

namespace tutti {

// A std::thread in which all signals are blocked from its first moment, except those of its own faults. Throws what
// std::thread throws.
template <typename... Arguments>
std::thread QuietThread(Arguments&&... arguments) {
  const SignalsBlocked blocked;
  return std::thread(std::forward<Arguments>(arguments)...);
}

}  // namespace tutti
