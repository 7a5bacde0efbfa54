// Ranks as ordinary users run them: without privileges, with the usual limits, in containers that forbid system calls.
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <vector>

#include "testing/ranks.h"
#include "testing/sandbox.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

// The usual mesh of small calls: every rank receives from every other.
void ExpectSums(tuttiComm_t comm, int ranks) {
  std::vector<float> data(1000, 1);
  ASSERT_TRUE(Ok(AllReduce(comm, data)));
  for (const float sum : data) ASSERT_EQ(sum, static_cast<float>(ranks));
  std::vector<int> gathered(static_cast<std::size_t>(ranks), -1);
  const int mine = RankIn(comm);
  ASSERT_TRUE(Ok(tuttiAllGather(&mine, gathered.data(), 1, tuttiInt32, comm, nullptr)));
  for (int r = 0; r < ranks; ++r) ASSERT_EQ(gathered[static_cast<std::size_t>(r)], r);
}

void JoinAsOrdinaryUser(int ranks, bool threads, int hosts = 1) {
  RunOptions options;
  options.threads = threads;
  options.environment = {{"TUTTI_VIRTUAL_HOSTS", std::to_string(hosts)}};
  options.limit = std::chrono::seconds(250);
  RunRanks(
      ranks,
      [](Rank& self) {
        if (self.rank() == 0 || !self.threads()) BecomeOrdinaryUser();
        if (self.threads()) self.Meet();
        const Comm comm = self.Join();
        ExpectSums(comm, self.size());
        // Creates another communicator at the same time, for ranks whose processes are already watched. (The ranks of
        // one process share its descriptors, and this many connections are the limit for one communicator.)
        if (self.threads()) return;
        Comm half;
        ASSERT_TRUE(Ok(tuttiCommSplit(comm, self.rank() % 2, 0, half.address(), nullptr)));
        ExpectSums(half, SizeOf(half));
      },
      options);
}

// The kernel counts a user's descriptors in flight. It stops a leader that sends all descriptors to all ranks at once,
// from 28 ranks on.
TEST(OrdinaryUser, ProcessesJoinWith1024Descriptors) { JoinAsOrdinaryUser(40, false); }
TEST(OrdinaryUser, ProcessesJoin256WithThemSlow) { JoinAsOrdinaryUser(256, false); }
TEST(OrdinaryUser, ProcessesJoinOnTwoHosts) { JoinAsOrdinaryUser(16, false, 2); }
// Ranks of one process do not need each other's descriptors.
TEST(OrdinaryUser, ThreadsJoinWith1024Descriptors) { JoinAsOrdinaryUser(40, true); }
TEST(OrdinaryUser, ThreadsJoin130WithThemSlow) { JoinAsOrdinaryUser(130, true); }

// A container without ptrace or process descriptors: asked for or not, ranks then copy.
TEST(OrdinaryUser, RanksDoWithoutPtrace) {
  if (const auto why = WhyNoSystemCallFilter(); !why.empty()) GTEST_SKIP() << why;
  for (const char* const cma : {"", "on"}) {
    RunOptions options;
    options.environment = {{"TUTTI_CMA", cma}};
    RunRanks(
        4,
        [](Rank& self) {
          BecomeOrdinaryUser();
          Forbid({SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_pidfd_getfd, SYS_pidfd_open, SYS_kcmp,
                  SYS_membarrier});
          const Comm comm = self.Join();
          ExpectSums(comm, self.size());
          constexpr std::size_t kBytes = 1 << 20;  // large enough that ranks would fetch it if they could
          const std::vector<char> mine(kBytes, static_cast<char>(self.rank()));
          std::vector<char> all(kBytes * static_cast<std::size_t>(self.size()));
          ASSERT_TRUE(Ok(tuttiAllGather(mine.data(), all.data(), kBytes, tuttiInt8, comm, nullptr)));
          EXPECT_EQ(all[kBytes - 1], 0);
          EXPECT_EQ(all.back(), self.size() - 1);
        },
        options);
  }
}

// A container whose filter forbids socket diagnostics, so the library reads /proc/net/tcp.
TEST(OrdinaryUser, RanksDoWithoutSocketDiagnostics) {
  if (const auto why = WhyNoSystemCallFilter(); !why.empty()) GTEST_SKIP() << why;
  RunRanks(4, [](Rank& self) {
    ForbidSockets(AF_NETLINK, NETLINK_SOCK_DIAG);
    const Comm comm = self.Join();
    ExpectSums(comm, self.size());
  });
}

TEST(OrdinaryUser, ALimitThatIsTooSmallIsNamed) {
  RunAlone([] {
    BecomeOrdinaryUser();
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    tuttiComm_t comm = nullptr;
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, 1'500, id, 0), tuttiSystemError,
                      {"rank 0 of 1500 needs at least 1500 file descriptors", "1024", "ulimit -n"}));
  });
}

}  // namespace
}  // namespace tutti::testing
