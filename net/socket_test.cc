#include "net/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>

#include <thread>

#include "net/net_testing.h"

namespace tutti::net {
namespace {

testing::SocketPair Connected(bool v6) { return testing::ConnectedAt(SocketAddress::Loopback(v6, 0)); }

TEST(SocketAddress, ParsesAndPrints) {
  EXPECT_EQ(SocketAddress::Parse("127.0.0.1", 80), SocketAddress::Loopback(false, 80));
  EXPECT_EQ(SocketAddress::Parse("::1", 80), SocketAddress::Loopback(true, 80));
  EXPECT_EQ(SocketAddress::Loopback(false, 80).Text(), "127.0.0.1:80");
  EXPECT_EQ(SocketAddress::Parse("2001:db8::5", 1)->Text(), "[2001:db8::5]:1");
  EXPECT_EQ(SocketAddress::Parse("2001:db8::5", 1)->IpText(), "2001:db8::5");
  EXPECT_TRUE(SocketAddress::Parse("fe80::1", 1)->IsLinkLocal());
  EXPECT_TRUE(SocketAddress::Parse("127.3.2.1", 1)->IsLoopback());
  EXPECT_FALSE(SocketAddress::Parse("128.0.0.1", 1)->IsLoopback());
  for (const auto* text :
       {"", "localhost", "1.2.3", "1.2.3.4.5", "127.1", "0x7f000001", "1.2.3.256", "::g", "[::1]", ":"}) {
    EXPECT_FALSE(SocketAddress::Parse(text, 1)) << text;
  }
}

TEST(Socket, NeverLeaksIntoProgramsNorBlocksNorDelays) {
  const auto pair = Connected(false);
  for (const auto* socket : {&pair.client, &pair.server}) {
    EXPECT_NE(fcntl(socket->fd(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(fcntl(socket->fd(), F_GETFL) & O_NONBLOCK, 0);
    int value = 0;
    socklen_t size = sizeof(value);
    EXPECT_EQ(getsockopt(socket->fd(), IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
    EXPECT_NE(value, 0);
  }
}

TEST(Socket, SendingToAClosedPeerIsNoSignal) {
  auto pair = Connected(false);
  pair.server.Close();
  const std::vector<std::byte> bytes(1000);
  IoResult result;
  for (int i = 0; i < 1000 && result.status != IoStatus::closed; ++i) result = SendSome(pair.client, bytes);
  EXPECT_EQ(result.status, IoStatus::closed);
}

TEST(Socket, ConnectingToNobodyIsRefused) {
  for (int i = 0; i < 100; ++i) {
    const auto port = testing::FreePort();
    const auto result = StartConnect(SocketAddress::Loopback(false, port));
    int error = result.error;
    if (result.socket) {
      pollfd fd{result.socket.fd(), POLLOUT, 0};
      ASSERT_EQ(Wait({&fd, 1}, testing::Ample()), Wake::event);
      error = ConnectError(result.socket);
    }
    EXPECT_EQ(error, ECONNREFUSED);
  }
}

TEST(Socket, MeetingItselfIsARefusal) {
  // TCP's simultaneous open: a socket bound to the port that it connects to.
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in self{};
  self.sin_family = AF_INET;
  self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(socket.fd(), reinterpret_cast<sockaddr*>(&self), sizeof(self)), 0);
  self.sin_port = htons(LocalAddress(socket).port);
  connect(socket.fd(), reinterpret_cast<sockaddr*>(&self), sizeof(self));
  pollfd fd{socket.fd(), POLLOUT, 0};
  ASSERT_EQ(Wait({&fd, 1}, testing::Ample()), Wake::event);
  EXPECT_EQ(ConnectError(socket), ECONNREFUSED);
}

TEST(Wait, EndsByEventDeadlineOrCancellation) {
  const auto pair = Connected(false);
  pollfd fd{pair.client.fd(), POLLIN, 0};
  EXPECT_EQ(Wait({&fd, 1}, Deadline::After(std::chrono::milliseconds(1))), Wake::deadline);
  std::atomic<bool> cancel{true};
  EXPECT_EQ(Wait({&fd, 1}, Deadline::Never(), Cancellation(cancel)), Wake::cancelled);
  SendSome(pair.server, std::vector<std::byte>(1));
  EXPECT_EQ(Wait({&fd, 1}, Deadline::Never()), Wake::event);
  cancel.store(false);
  EXPECT_EQ(Wait({&fd, 1}, Deadline::After(Deadline::Milliseconds::zero()), Cancellation(cancel)), Wake::event);
}

TEST(Wait, GoesOnAfterSignals) {
  // A handler without SA_RESTART makes poll() return EINTR.
  struct sigaction ignore {};
  ignore.sa_handler = [](int) {};
  struct sigaction before {};
  sigaction(SIGUSR1, &ignore, &before);
  const auto pair = Connected(false);
  const auto waiter = pthread_self();
  std::thread sender([&] {
    for (int i = 0; i < 20; ++i) {
      pthread_kill(waiter, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    SendSome(pair.server, std::vector<std::byte>(1));
  });
  pollfd fd{pair.client.fd(), POLLIN, 0};
  EXPECT_EQ(Wait({&fd, 1}, testing::Ample()), Wake::event);
  EXPECT_NE(fd.revents, 0);
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(Deadline, OrdersAndEnds) {
  EXPECT_LT(Deadline::After(std::chrono::hours(1)), Deadline::Never());
  EXPECT_TRUE(Deadline::After(Deadline::Milliseconds(-5)).Passed());
  EXPECT_EQ(Deadline::After(Deadline::Milliseconds(-5)).Left().count(), 0);
  EXPECT_FALSE(Deadline::Never().Passed());
  EXPECT_FALSE(Deadline::After(Deadline::Milliseconds::max()).Passed());
  EXPECT_GT(Deadline::After(Deadline::Milliseconds::max()).Left(), std::chrono::hours(1));
}

}  // namespace
}  // namespace tutti::net
