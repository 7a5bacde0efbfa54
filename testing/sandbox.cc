#include "testing/sandbox.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace tutti::testing {
namespace {

constexpr rlim_t kDescriptors = 1024, kLockedBytes = 64 << 10;

void Limit(int resource, rlim_t most) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(static_cast<__rlimit_resource>(resource), &limit), 0);
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, most);
  ASSERT_EQ(setrlimit(static_cast<__rlimit_resource>(resource), &limit), 0);
}

void Install(std::vector<sock_filter> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

constexpr sock_filter Load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
}
constexpr sock_filter kRefuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

}  // namespace

bool IsRoot() { return geteuid() == 0; }

void BecomeNobody() {
  ASSERT_EQ(setgroups(0, nullptr), 0);
  ASSERT_EQ(setresgid(kNobody, kNobody, kNobody), 0);
  ASSERT_EQ(setresuid(kNobody, kNobody, kNobody), 0);
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1), 0);  // like a process that was this user's from the start
}

void BecomeOrdinaryUser() {
  Limit(RLIMIT_NOFILE, kDescriptors);
  Limit(RLIMIT_MEMLOCK, kLockedBytes);
  umask(077);
  if (IsRoot()) BecomeNobody();
}

void Forbid(const std::vector<long>& system_calls) {
  std::vector<sock_filter> filter{Load(offsetof(seccomp_data, nr))};
  for (const long number : system_calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    filter.push_back(kRefuse);
  }
  filter.push_back(kAllow);
  Install(std::move(filter));
}

void ForbidSockets(int family, int protocol) {
  constexpr auto kArguments = offsetof(seccomp_data, args);
  constexpr auto kWidth = sizeof(seccomp_data::args[0]);
  Install({Load(offsetof(seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5), Load(kArguments),
           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(family), 0, 3), Load(kArguments + 2 * kWidth),
           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(protocol), 0, 1), kRefuse, kAllow});
}

}  // namespace tutti::testing
