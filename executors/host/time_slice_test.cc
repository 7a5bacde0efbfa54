#include "executors/host/time_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace tutti::host {
namespace {

using std::chrono::microseconds;

int NiceOfThread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))); }

TEST(TimeSlice, IsShortenedForTheCallingThreadAlone) {
  const auto before = SliceOfThread();
  if (before == microseconds(0)) GTEST_SKIP() << "the kernel is older than 6.12";
  ASSERT_GT(before, microseconds(100));
  std::thread([&] {
    const int nicer = NiceOfThread() + 1;  // an ordinary user may only raise it
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), nicer);
    EXPECT_TRUE(AskForSlices(microseconds(100)));
    EXPECT_EQ(SliceOfThread(), microseconds(100));
    EXPECT_EQ(NiceOfThread(), nicer) << "the rest of the attributes stays";
    EXPECT_FALSE(AskForSlices(before)) << "slices that the thread has asked for are never lengthened";
    EXPECT_EQ(SliceOfThread(), microseconds(100));
  }).join();
  EXPECT_EQ(SliceOfThread(), before);
}

TEST(TimeSlice, OfAThreadThatOnlyRunsOnAnIdleCoreIsLeftAlone) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    EXPECT_FALSE(AskForSlices(microseconds(100)));
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  }).join();
}

}  // namespace
}  // namespace tutti::host
