#include "executors/host/drive.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "executors/host/time_slice.h"

namespace tutti::host {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Confines two threads to one core. One computes for `work` and gives the core up after every `turn`. The other waits for
// it by `policy`; its counts are the result.
WaitCounts CountsBesideWork(WaitPolicy policy, Clock::duration work, Clock::duration turn) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof(all), &all);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);  // the thread inherits it
  std::atomic<bool> worked{false};
  std::thread other([&] {
    for (const auto begin = Clock::now(); Clock::now() - begin < work; sched_yield()) {
      for (const auto turn_begin = Clock::now(); Clock::now() - turn_begin < turn;) {
      }
    }
    worked.store(true, std::memory_order_release);
  });
  Driver driver(nullptr, policy);
  driver.Drive([&] { return worked.load(std::memory_order_acquire) ? Run::Progress::done : Run::Progress::blocked; },
               [](auto) { return true; });
  other.join();
  sched_setaffinity(0, sizeof(all), &all);
  return driver.counts();
}

constexpr std::chrono::minutes kLong(1);
constexpr WaitPolicy kSpins{kLong, kLong};

// As a rank does that waits, too, once it has moved some data.
TEST(Driver, LeavesTheCoreToAThreadThatGivesItBackSoon) {
  auto stubborn = kSpins;
  stubborn.keeps_core = true;
  const auto beside = [](WaitPolicy policy) {
    return CountsBesideWork(policy, milliseconds(40), std::chrono::microseconds(50));
  };
  auto counts = beside(kSpins);
  // Other programs may compute on this core, too.
  for (int tries = 1; counts.lost_slices != 0 && tries < 50; ++tries) counts = beside(kSpins);
  if (counts.lost_slices != 0) GTEST_SKIP() << "another program computes on this core";
  EXPECT_LT(counts.spins * 10, beside(stubborn).spins);
}

TEST(Driver, StopsOfferingTheCoreToAThreadThatComputes) {
  constexpr milliseconds kWork(500);
  const auto counts = CountsBesideWork(kSpins, kWork, kWork);
  EXPECT_GE(counts.lost_slices, 1u);
  // An offer every few microseconds would lose a slice each time: a hundred of some 4 ms.
  EXPECT_LE(counts.lost_slices, 10u);
  EXPECT_EQ(counts.sleeps, 0u);
}

TEST(Driver, AsksForShortSlicesBeforeItYields) {
  if (SliceOfThread() == std::chrono::microseconds(0)) GTEST_SKIP() << "the kernel is older than 6.12";
  const auto slice_after = [](WaitPolicy policy) {
    auto slice = SliceOfThread();
    std::thread([&] {
      Driver driver(nullptr, policy);
      driver.Drive([calls = 0]() mutable { return ++calls > 100 ? Run::Progress::done : Run::Progress::blocked; },
                   [](auto) { return true; });
      slice = SliceOfThread();
    }).join();
    return slice;
  };
  WaitPolicy policy{std::chrono::microseconds(0), kLong};
  EXPECT_EQ(slice_after(policy), SliceOfThread());
  policy.slice = std::chrono::microseconds(200);
  EXPECT_EQ(slice_after(policy), policy.slice);
}

// Whether it spins, yields or sleeps.
TEST(Driver, DoesWhatTheCallerWantsMeanwhile) {
  for (const char* const mode : {"spin", "yield", "sleep"}) {
    int calls = 0;
    const Meanwhile meanwhile{[](void* count) { ++*static_cast<int*>(count); }, &calls};
    Driver driver(nullptr, {});
    // Ends early once there were calls: other programs may keep the core for long after each yield.
    const auto wait_for = [&](Clock::duration most) {
      const auto begin = Clock::now();
      const auto over = [&] { return calls > 1 || Clock::now() - begin > most; };
      driver.Drive([&] { return over() ? Run::Progress::done : Run::Progress::blocked; }, [](auto) { return true; });
    };
    driver.Use(ChooseWaitPolicy(mode, 1, 1), meanwhile);
    wait_for(std::chrono::seconds(30));
    EXPECT_GT(calls, 1) << mode;
    calls = 0;
    driver.Use(ChooseWaitPolicy(mode, 1, 1));
    wait_for(milliseconds(20));
    EXPECT_EQ(calls, 0) << mode;
  }
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
