#include "net/peer_user.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/deadline.h"
#include "testing/surroundings.h"

namespace tutti::net {
namespace {

constexpr uid_t kNobody = 65534;

// Both ends of a connection; the accepting one has accepted.
struct Pair {
  Socket listener, dialled, accepted;
};

Pair Connect(const SocketAddress& listen_at, const SocketAddress& dial) {
  Pair pair;
  pair.listener = Listen(listen_at).socket;
  auto to = dial;
  to.port = LocalAddress(pair.listener).port;
  pair.dialled = StartConnect(to).socket;
  pollfd fd{pair.listener.fd(), POLLIN, 0};
  Wait({&fd, 1}, Deadline::After(std::chrono::seconds(10)));
  pair.accepted = Accept(pair.listener).socket;
  return pair;
}

void ExpectOwn(const Pair& pair) {
  ASSERT_TRUE(pair.accepted);
  EXPECT_TRUE(UserOfTcpPeer(pair.accepted).taken()) << UserOfTcpPeer(pair.accepted).why;
  EXPECT_TRUE(UserOfTcpPeer(pair.dialled).taken()) << UserOfTcpPeer(pair.dialled).why;
}

TEST(PeerUser, OnesOwnConnectionsAreTakenOnEveryKindOfLoopback) {
  const auto four = SocketAddress::Loopback(false, 0), six = SocketAddress::Loopback(true, 0);
  ExpectOwn(Connect(four, four));
  ExpectOwn(Connect(six, six));
  // One socket for both families: IPv4 addresses mapped into IPv6.
  ExpectOwn(Connect(SocketAddress::Wildcard(true, 0), four));
  ExpectOwn(Connect(SocketAddress::Wildcard(false, 0), *SocketAddress::Parse("127.0.0.7", 0)));
}

TEST(PeerUser, WhoHasHungUpIsNobody) {
  const auto four = SocketAddress::Loopback(false, 0);
  auto pair = Connect(four, four);
  pair.dialled.Close();
  EXPECT_EQ(UserOfTcpPeer(pair.accepted).verdict, PeerUser::Verdict::gone);
}

// Runs `body` in a child, because its effects cannot be undone. The child's status is 0 if `body` returned true.
template <typename Body>
void InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

bool ForbidNetlink() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{6, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Connections from another user's process, which only root can make.
class OtherUser : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
    if (!GetParam()) return;
    if (const auto why = testing::WhyNoSystemCallFilter(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(OtherUser, IsRefusedByTheKernelsWord) {
  const bool without_netlink = GetParam();
  for (const bool v6 : {false, true}) {
    const auto listener = Listen(SocketAddress::Wildcard(true, 0)).socket;
    const auto at = SocketAddress::Loopback(v6, LocalAddress(listener).port);
    const pid_t stranger = fork();
    if (stranger == 0) {
      if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(1);
      const auto socket = StartConnect(at).socket;
      pause();
    }
    pollfd fd{listener.fd(), POLLIN, 0};
    Wait({&fd, 1}, Deadline::After(std::chrono::seconds(10)));
    const auto accepted = Accept(listener).socket;
    InChild([&] {
      if (without_netlink && !ForbidNetlink()) return false;
      const auto user = UserOfTcpPeer(accepted);
      return user.verdict == PeerUser::Verdict::refused && user.why.find("user 65534") != std::string::npos;
    });
    kill(stranger, SIGKILL);
    waitpid(stranger, nullptr, 0);
  }
}

TEST_P(OtherUser, OwnConnectionsAreStillTaken) {
  const auto pair = Connect(SocketAddress::Wildcard(true, 0), SocketAddress::Loopback(false, 0));
  InChild([&] {
    if (GetParam() && !ForbidNetlink()) return false;
    return UserOfTcpPeer(pair.accepted).taken() && UserOfTcpPeer(pair.dialled).taken();
  });
}

INSTANTIATE_TEST_SUITE_P(, OtherUser, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "by_proc" : "by_netlink"; });

TEST(PeerUser, AUnixPeerOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  EXPECT_TRUE(UserOfUnixPeer(ends[0]).taken());
  InChild([&] {
    if (setresuid(kNobody, kNobody, kNobody) != 0) return false;
    return UserOfUnixPeer(ends[0]).verdict == PeerUser::Verdict::refused;  // root made the pair
  });
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace tutti::net
