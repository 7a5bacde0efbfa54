// While one of these lives, its thread takes no signals, and the threads that it starts never will: they inherit that.
//
// Thread-safety: belongs to the thread that made it.
#pragma once

#include <pthread.h>

#include <csignal>

namespace tutti {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tutti
