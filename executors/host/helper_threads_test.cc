#include "executors/host/helper_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tutti::host {
namespace {

// The jobs end one after the other: a count that lets Work() return before the last of them is seen.
TEST(HelperThreads, ReturnAfterTheLastJob) {
  HelperThreads threads(3);
  std::atomic<int> ended{0};
  for (int round = 1; round <= 3; ++round) {
    threads.Work([&](int index) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10 * index));
      ended.fetch_add(1);
    });
    EXPECT_EQ(ended.load(), round * threads.size());
  }
}

}  // namespace
}  // namespace tutti::host
