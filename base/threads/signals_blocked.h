// While one of these lives, its thread takes no signals, and the threads that it starts never will: they inherit that.
// Signals that the thread's own faults raise stay unblocked: the program's crash handler must run wherever the crash
// is, and a blocked SIGSEGV would end the process without it.
//
// Thread-safety: belongs to the thread that made it.
#pragma once

#include <pthread.h>

#include <csignal>

namespace tutti {

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
  sigset_t before_;
};

}  // namespace tutti
