#include "executors/host/drive.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace tutti::host {
namespace {

using std::chrono::milliseconds;

// How often a thread that waits by `policy` polls until another thread, on the only core that either may use, has
// worked for a while.
std::uint64_t SpinsBesideWork(WaitPolicy policy) {
  constexpr milliseconds kWork(40);
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof(all), &all);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);  // the thread inherits it
  std::atomic<bool> worked{false};
  std::thread other([&] {
    const auto until = std::chrono::steady_clock::now() + kWork;
    while (std::chrono::steady_clock::now() < until) {
    }
    worked.store(true, std::memory_order_release);
  });
  Driver driver(nullptr, policy);
  driver.Drive([&] { return worked.load(std::memory_order_acquire) ? Run::Progress::done : Run::Progress::blocked; },
               [](auto) { return true; });
  other.join();
  sched_setaffinity(0, sizeof(all), &all);
  return driver.counts().spins;
}

TEST(Driver, LeavesTheCoreToWhoeverWantsIt) {
  constexpr std::chrono::minutes kLong(1);
  const WaitPolicy spin{kLong, kLong};
  auto stubborn = spin;
  stubborn.keeps_core = true;
  EXPECT_LT(SpinsBesideWork(spin) * 10, SpinsBesideWork(stubborn));
}

TEST(WaitPolicy, GivesCoresToThoseWhoComputeWhereThereAreFew) {
  const auto alone = ChooseWaitPolicy("", 2, 2), beside = ChooseWaitPolicy("", 2, 2, WhoWaits::stream);
  EXPECT_GT(alone.spin.count(), 0);
  EXPECT_EQ(beside.spin.count(), 0);
  EXPECT_LT(beside.yield, alone.yield);
  // With a core for each, neither thread is in the other's way.
  const auto roomy = ChooseWaitPolicy("", 2, 4, WhoWaits::stream);
  EXPECT_EQ(roomy.spin, alone.spin);
  EXPECT_EQ(roomy.yield, alone.yield);
}

TEST(WaitPolicy, IsWhatTheSettingSays) {
  for (const auto who : {WhoWaits::caller, WhoWaits::stream}) {
    EXPECT_GT(ChooseWaitPolicy("spin", 100, 1, who).spin, std::chrono::hours(1));
    EXPECT_EQ(ChooseWaitPolicy("yield", 1, 100, who).spin.count(), 0);
    EXPECT_GT(ChooseWaitPolicy("yield", 1, 100, who).yield, std::chrono::hours(1));
    EXPECT_EQ(ChooseWaitPolicy("sleep", 1, 100, who).yield.count(), 0);
  }
}

}  // namespace
}  // namespace tutti::host
