#include "transports/plugin/control_thread.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/threads/made_once.h"
#include "testing/surroundings.h"

namespace tutti::plugin {
namespace {

TEST(PluginControlThread, MakesTheCallsOfAllThreads) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 1'000;
  static constinit MadeOnce<ControlThread> made;  // as in the library, it is never destroyed
  auto& control = made.Get();
  std::mutex mutex;
  std::set<std::thread::id> made_by;
  int sum = 0;  // only the thread touches it
  const auto caller = [&] {
    control.Start();
    for (int i = 1; i <= kCalls; ++i) {
      const auto by = control.Run([&] {
        sum += i;
        return std::this_thread::get_id();
      });
      EXPECT_NE(by, std::this_thread::get_id());
      const std::lock_guard lock(mutex);
      made_by.insert(by);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(caller);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(made_by.size(), 1U);
  EXPECT_EQ(control.Run([&] { return sum; }), kThreads * kCalls * (kCalls + 1) / 2);
}

TEST(PluginControlThread, AForkedChildHasItsOwn) {
  if (const auto why = testing::WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  static constinit MadeOnce<ControlThread> made;  // as in the library, it is never destroyed
  auto& control = made.Get();
  control.Start();
  EXPECT_EQ(control.Run([] { return getpid(); }), getpid());
  const auto child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    control.Start();
    _exit(control.Run([] { return getpid(); }) == getpid() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(control.Run([] { return getpid(); }), getpid());
}

}  // namespace
}  // namespace tutti::plugin
