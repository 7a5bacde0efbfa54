#include "bench/driver/busy_cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <cerrno>

namespace tutti::bench {
namespace {

TEST(BusyCores, HaveAProcessEachWhichEndsInTime) {
  pid_t process = 0;
  {
    const auto busy = KeepLastCoresBusy(1);
    process = busy.at(0).pid();
    cpu_set_t cores;
    ASSERT_EQ(sched_getaffinity(process, sizeof cores, &cores), 0);
    EXPECT_EQ(CPU_COUNT(&cores), 1);
  }
  EXPECT_EQ(kill(process, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace tutti::bench
