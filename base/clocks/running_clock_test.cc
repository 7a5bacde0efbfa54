#include "base/clocks/running_clock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/clocks/deadline.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStop(1500);
constexpr milliseconds kNap(5);

// Runs `body` in a process that is stopped for kStop while it runs. `body` returns whether it is content.
template <typename Body>
bool StoppedMeanwhile(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? EXIT_SUCCESS : EXIT_FAILURE);
  std::this_thread::sleep_for(milliseconds(200));
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(kStop);
  kill(child, SIGCONT);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

// The process's own time when it has been stopped; the clocks' difference tells. Gives up after long.
RunningClock::duration RunUntilStopped(Lookout& lookout, int looks_meanwhile = 0) {
  const auto begin = lookout.Look();
  const auto steady = std::chrono::steady_clock::now();
  const auto longest = steady + std::chrono::seconds(30);
  auto own = begin - begin;
  while (std::chrono::steady_clock::now() - steady - own < kStop / 2 && std::chrono::steady_clock::now() < longest) {
    std::this_thread::sleep_for(kNap);
    for (int i = 0; i <= looks_meanwhile; ++i) own = lookout.Look() - begin;
  }
  return std::chrono::steady_clock::now() < longest ? own : longest - steady;
}

TEST(RunningClock, StandsStillWhileTheProcessDoes) {
  EXPECT_TRUE(StoppedMeanwhile([] {
    Lookout lookout;
    const auto before = lookout.Look();
    const auto deadline = Deadline::After(kStop);
    const auto own = RunUntilStopped(lookout);
    // As long as before the stop, and what counts of the stop.
    return own < kStop && RunningClock::now() - before < kStop && !deadline.Passed();
  }));
}

// The process stood still after the deadline was made and before the wait for it began.
TEST(RunningClock, KnowsOfAStandstillBeforeTheWait) {
  EXPECT_TRUE(StoppedMeanwhile([] {
    const auto deadline = Deadline::After(kStop);
    const auto before = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - before < kStop / 2) std::this_thread::yield();
    Lookout().Look();
    return !deadline.Passed();
  }));
}

// Two threads find the same standstill.
TEST(RunningClock, CountsAStandstillOnce) {
  EXPECT_TRUE(StoppedMeanwhile([] {
    const auto begin = Lookout().Look();  // this process may not have looked for long
    const auto steady = std::chrono::steady_clock::now();
    std::thread other([] {
      Lookout lookout;
      RunUntilStopped(lookout);
    });
    Lookout lookout;
    RunUntilStopped(lookout);
    other.join();
    const auto lost = (std::chrono::steady_clock::now() - steady) - (RunningClock::now() - begin);
    return lost < 2 * kStop - milliseconds(200);
  }));
}

// A thread that looks too seldom still sees the time go on, so that its wait ends.
TEST(RunningClock, GoesOnForAThreadThatIsAlwaysLate) {
  Lookout lookout;
  const auto deadline = Deadline::After(3 * Lookout::kMostCounted);
  int looks = 0;
  for (; !deadline.Passed() && looks < 100; ++looks) {
    std::this_thread::sleep_for(Lookout::kMostCounted + milliseconds(20));
    lookout.Look();
  }
  EXPECT_LE(looks, 4);
}

}  // namespace
}  // namespace tutti
