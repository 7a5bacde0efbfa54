#include "transports/shm/process_register.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti::shm {
namespace {

FileDescriptor Open(pid_t process) { return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0))); }

pid_t StartChild() {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  return child;
}

void End(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(ShareProcess, KeepsOneDescriptorOfAProcess) {
  const pid_t child = StartChild();
  auto first = Open(child);
  if (!first) {
    End(child);
    GTEST_SKIP() << "no process descriptors here";
  }
  EXPECT_EQ(ProcessNumber(first), child);
  const auto kept = ShareProcess(std::move(first));
  EXPECT_EQ(ShareProcess(Open(child)), kept);
  EXPECT_NE(ShareProcess(Open(getpid())), kept);
  EXPECT_FALSE(HasEnded(kept->get()));
  End(child);
  EXPECT_TRUE(HasEnded(kept->get()));
  EXPECT_EQ(ProcessNumber(*kept), 0);
  EXPECT_FALSE(HasEnded(-1));
}

TEST(ShareProcess, KnowsAPidfd) {
  const auto own = Open(getpid());
  if (!own) GTEST_SKIP() << "no process descriptors here";
  EXPECT_TRUE(IsPidfd(own));
  EXPECT_FALSE(IsPidfd(FileDescriptor(eventfd(0, EFD_CLOEXEC))));
  EXPECT_FALSE(IsPidfd(FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC))));
  EXPECT_FALSE(IsPidfd(FileDescriptor()));
}

TEST(ProcessKey, IsAnotherOneInAForkedChild) {
  const auto mine = ProcessKey();
  EXPECT_EQ(ProcessKey(), mine);
  const pid_t child = fork();
  if (child == 0) _exit(ProcessKey() == mine ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tutti::shm
