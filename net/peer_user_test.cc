#include "net/peer_user.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/clocks/deadline.h"
#include "testing/own_network.h"
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

TEST(PeerUser, IsUnknownWithoutADescriptorToAskWith) {
  if (const auto why = testing::WhyEmulated("limits on descriptors"); !why.empty()) GTEST_SKIP() << why;
  const auto four = SocketAddress::Loopback(false, 0);
  const auto pair = Connect(four, four);
  InChild([&] {
    const rlimit none{};
    return setrlimit(RLIMIT_NOFILE, &none) == 0 && UserOfTcpPeer(pair.accepted).verdict == PeerUser::Verdict::unknown;
  });
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

// Two addresses of each family that are not loopback.
const std::vector<std::string> kMoreAddresses = {"addr add 10.77.0.1/24 dev lo", "addr add 10.77.0.2/24 dev lo",
                                                 "addr add fd77::1/64 dev lo", "addr add fd77::2/64 dev lo"};

// One way for a process to call another of its machine.
struct Way {
  std::string from, to;
  bool bound_to_device = false;  // the stranger's socket is bound to the device lo
};
const std::vector<Way> kWays = {{"10.77.0.1", "127.0.0.1"},
                                {"127.0.0.1", "10.77.0.1"},
                                {"10.77.0.1", "10.77.0.2"},
                                {"10.77.0.1", "10.77.0.1"},
                                {"fd77::1", "::1"},
                                {"::1", "fd77::1"},
                                {"fd77::1", "fd77::2"},
                                {"127.0.0.1", "127.0.0.1", true},
                                {"10.77.0.1", "127.0.0.1", true},
                                {"::1", "::1", true}};

// What bind and connect take.
struct Raw {
  sockaddr_storage storage{};
  socklen_t size;

  Raw(const std::string& ip, std::uint16_t port) {
    const auto address = *SocketAddress::Parse(ip, port);
    sockaddr_in four{AF_INET, htons(port), {}, {}};
    sockaddr_in6 six{AF_INET6, htons(port), 0, {}, 0};
    std::memcpy(&four.sin_addr, address.ip.data(), sizeof four.sin_addr);
    std::memcpy(&six.sin6_addr, address.ip.data(), sizeof six.sin6_addr);
    size = address.v6 ? sizeof six : sizeof four;
    address.v6 ? std::memcpy(&storage, &six, size) : std::memcpy(&storage, &four, size);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// A socket at `ip` and `port`, made by the calling process. -1 if the system refuses.
int SocketAt(const std::string& ip, std::uint16_t port, bool bound_to_device) {
  const Raw at(ip, port);
  const int made = ::socket(at.storage.ss_family, SOCK_STREAM, 0), on = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(made, SOL_IP, IP_FREEBIND, &on, sizeof on);
  if (bound_to_device && setsockopt(made, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2) != 0) return -1;
  return bind(made, at.get(), at.size) == 0 ? made : -1;
}

bool ConnectTo(int socket, const std::string& ip, std::uint16_t port) {
  const Raw to(ip, port);
  return connect(socket, to.get(), to.size) == 0;
}

// A process of another user, which ends with the object.
class Stranger {
 public:
  template <typename Body>
  explicit Stranger(Body body) : child_(fork()) {
    if (child_ != 0) return;
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(1);
    body();
    pause();
  }
  ~Stranger() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

 private:
  pid_t child_;
};

void ExpectRefused(const Socket& socket, bool without_netlink, const Way& way) {
  SCOPED_TRACE(way.from + " to " + way.to + (way.bound_to_device ? " on the device lo" : ""));
  InChild([&] {
    if (without_netlink && !ForbidNetlink()) return false;
    const auto user = UserOfTcpPeer(socket);
    return user.verdict == PeerUser::Verdict::refused && user.why.find("user 65534") != std::string::npos;
  });
}

constexpr std::uint16_t kPort = 2000, kOtherPort = 2001;  // nobody else is in the namespace
const Deadline::Milliseconds kPatience = std::chrono::seconds(10);

TEST_P(OtherUser, WhoCallsIsRefusedWhateverItsAddress) {
  const testing::OwnNetwork network(kMoreAddresses);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  for (const auto& listen_at : {std::string("::"), std::string()}) {  // one socket for both families, or one of its own
    for (const auto& way : kWays) {
      const auto listener = Listen(*SocketAddress::Parse(listen_at.empty() ? way.to : listen_at, kPort)).socket;
      ASSERT_TRUE(listener);
      const Stranger stranger([&] { ConnectTo(SocketAt(way.from, 0, way.bound_to_device), way.to, kPort); });
      pollfd fd{listener.fd(), POLLIN, 0};
      Wait({&fd, 1}, Deadline::After(kPatience));
      const auto accepted = Accept(listener).socket;
      ASSERT_TRUE(accepted) << way.from << " to " << way.to;
      ExpectRefused(accepted, GetParam(), way);
    }
  }
}

TEST_P(OtherUser, WhoAnswersIsRefusedWhateverItsAddress) {
  const testing::OwnNetwork network(kMoreAddresses);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  for (const auto& way : kWays) {
    const Stranger stranger([&] {
      const int listener = SocketAt(way.to, kPort, way.bound_to_device);
      listen(listener, 1);
      [[maybe_unused]] const auto answered = write(accept(listener, nullptr, nullptr), "x", 1);
    });
    const auto until = Deadline::After(kPatience);
    Socket dialled;
    for (bool answered = false; !answered && !until.Passed();) {
      dialled = Socket(SocketAt(way.from, 0, false));
      if (!ConnectTo(dialled.fd(), way.to, kPort)) continue;
      std::array<std::byte, 1> byte{};
      answered = ReceiveSome(dialled, byte).bytes == 1;
    }
    ExpectRefused(dialled, GetParam(), way);
  }
}

// Another user calls with all the right ends, and nobody answers it: that is not the connection's other end.
TEST_P(OtherUser, WhoOnlyCallsWithTheSameEndsIsNobody) {
  const testing::OwnNetwork network(kMoreAddresses);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  const auto listener = Listen(*SocketAddress::Parse("10.77.0.1", kPort)).socket;
  // A listener of this machine at the peer's port is not the connection's other end either.
  const auto at_its_port = Listen(SocketAddress::Wildcard(false, kOtherPort)).socket;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t other_machine = fork();
  if (other_machine == 0) {
    char go;
    if (unshare(CLONE_NEWNET) != 0 || write(ends[1], "x", 1) != 1 || read(ends[1], &go, 1) != 1) _exit(1);
    const int calling = SocketAt("10.88.0.2", kOtherPort, false);
    while (!ConnectTo(calling, "10.77.0.1", kPort)) usleep(1000);
    pause();
  }
  char ready;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  const auto ip = [](const std::string& command) { return std::system(("ip " + command).c_str()) == 0; };
  const auto inside = "nsenter -t " + std::to_string(other_machine) + " -n ip ";
  const bool wired = ip("link add v0 type veth peer name v1 netns " + std::to_string(other_machine)) &&
                     ip("addr add 10.88.0.1/24 dev v0") && ip("link set v0 up") &&
                     std::system((inside + "addr add 10.88.0.2/24 dev v1").c_str()) == 0 &&
                     std::system((inside + "link set v1 up").c_str()) == 0 &&
                     std::system((inside + "route add default via 10.88.0.1").c_str()) == 0;
  ASSERT_TRUE(write(ends[0], "x", 1) == 1 && wired);
  pollfd fd{listener.fd(), POLLIN, 0};
  Wait({&fd, 1}, Deadline::After(kPatience));
  const auto accepted = Accept(listener).socket;
  ASSERT_TRUE(accepted);
  const auto expect_taken = [&] {
    InChild([&] {
      if (GetParam() && !ForbidNetlink()) return false;
      return UserOfTcpPeer(accepted).taken();
    });
  };
  expect_taken();
  const Stranger stranger([&] {
    const int calling = SocketAt("10.88.0.2", kOtherPort, false);
    fcntl(calling, F_SETFL, O_NONBLOCK);
    ConnectTo(calling, "10.77.0.1", kPort);
    [[maybe_unused]] const auto told = write(ends[1], "x", 1);
  });
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  expect_taken();
  kill(other_machine, SIGKILL);
  waitpid(other_machine, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
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
