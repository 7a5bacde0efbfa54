// Starts threads that receive no signals, since signals belong to the program.
//
// Thread-safety: may be used in any thread.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace tutti::pytorch {

// A thread made during this object's lifetime has all signals blocked except those for its own faults, which must reach
// the program's handler.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t others;
    sigfillset(&others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&others, own);
    pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

template <typename Function>
std::thread QuietThread(Function&& function) {
  const SignalsBlocked blocked;
  return std::thread(std::forward<Function>(function));
}

}  // namespace tutti::pytorch
