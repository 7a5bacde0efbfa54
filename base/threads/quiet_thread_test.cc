#include "base/threads/quiet_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace tutti {
namespace {

constexpr int kOwnFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

TEST(QuietThread, TakesNoSignalsButThoseOfItsOwnFaults) {
  sigset_t before, inside, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  QuietThread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int others : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGPIPE, SIGRTMIN}) {
    EXPECT_EQ(sigismember(&inside, others), 1) << others;
  }
  for (const int own : kOwnFaults) EXPECT_EQ(sigismember(&inside, own), 0) << own;
  for (int each = 1; each < SIGRTMAX; ++each) EXPECT_EQ(sigismember(&before, each), sigismember(&after, each)) << each;
}

TEST(QuietThread, LeavesACrashToTheProgramsHandler) {
  constexpr int kHandled = 42;
  EXPECT_EXIT(
      {
        struct sigaction handler {};
        handler.sa_handler = [](int) { _exit(kHandled); };
        sigaction(SIGSEGV, &handler, nullptr);
        QuietThread([] {
          volatile int* volatile nowhere = nullptr;
          *nowhere = 1;
        }).join();
      },
      ::testing::ExitedWithCode(kHandled), "");
}

}  // namespace
}  // namespace tutti
