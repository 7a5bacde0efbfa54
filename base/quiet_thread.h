// Threads that never take the application's signals.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace tutti {

// std::thread with all signals blocked in it from its first moment. Throws what std::thread throws.
template <typename... Arguments>
std::thread QuietThread(Arguments&&... arguments) {
  class SignalsBlocked {
   public:
    SignalsBlocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

   private:
    sigset_t before_;
  };
  const SignalsBlocked blocked;
  return std::thread(std::forward<Arguments>(arguments)...);
}

}  // namespace tutti
