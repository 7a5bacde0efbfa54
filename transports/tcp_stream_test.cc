#include "transports/tcp_stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>

#include "transports/carrier_testing.h"

namespace tutti {
namespace {

class Pair {
 public:
  // Small buffers make writes and reads partial.
  explicit Pair(int buffer = 0) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (const int fd : fds) {
      if (buffer != 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    }
    a = std::make_unique<TcpStream>(Socket(fds[0]), 1);
    b = std::make_unique<TcpStream>(Socket(fds[1]), 0);
  }
  // Until nothing moves.
  void Run() {
    for (bool moved = true; moved;) {
      moved = false;
      ASSERT_TRUE(a->Flush(at_a)) << a->why();
      ASSERT_TRUE(b->Receive(at_b, moved)) << b->why();
    }
  }

  std::unique_ptr<TcpStream> a, b;
  HeardEvents at_a, at_b;
};

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(TcpStream, SlotsAndMessagesOfAllSizesInOrder) {
  std::mt19937 random(11);
  for (const int buffer : {0, 4096}) {
    Pair pair(buffer);
    std::vector<std::string> data;
    for (int i = 0; i < 200; ++i) {
      const std::size_t most = i % 3 == 0 ? 100 : i % 3 == 1 ? 3000 : 200'000;
      data.emplace_back(random() % most, static_cast<char>('a' + i % 26));
    }
    data.emplace_back();  // a slot may be empty
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < data.size(); ++i) {
      pair.a->QueueSlot({7, i + 1, 99, static_cast<std::uint32_t>(data[i].size())},
                        reinterpret_cast<const std::byte*>(data[i].data()));
      if (i % 5 == 0) pair.a->QueueControl(Bytes("message " + std::to_string(i)));
      if (i % 7 == 0) pair.Run();
      numbers.push_back(i + 1);
    }
    pair.Run();
    EXPECT_EQ(pair.at_a.sent, numbers);
    EXPECT_EQ(pair.at_b.order, numbers);
    for (std::uint32_t i = 0; i < data.size(); ++i) EXPECT_EQ(pair.at_b.TextOf(i + 1), data[i]) << i;
    ASSERT_EQ(pair.at_b.texts.size(), (data.size() + 4) / 5);
    EXPECT_EQ(pair.at_b.texts[2], "message 10");
    EXPECT_EQ(pair.a->bytes_queued(), 0U);
    EXPECT_EQ(pair.a->slots_queued(), 0U);
  }
}

// Two ends of a TCP connection over loopback.
std::array<Socket, 2> Connected() {
  const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.fd(), any, size), 0);
  EXPECT_EQ(listen(listener.fd(), 1), 0);
  EXPECT_EQ(getsockname(listener.fd(), any, &size), 0);
  Socket dialled(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(dialled.fd(), any, size), 0);
  return {std::move(dialled), Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC))};
}

TEST(TcpStream, LongSlotsStayInPlaceUntilTheSystemHasDoneWithThem) {
  using Mode = ZeroCopySends::Mode;
  for (const auto mode : {Mode::always, Mode::useful, Mode::off}) {
    auto [one, other] = Connected();
    TcpStream a(std::move(one), 1, mode), b(std::move(other), 0);
    HeardEvents at_a, at_b;
    std::vector<std::string> data;
    for (std::uint32_t i = 0; i < 12; ++i) {
      data.emplace_back(i % 3 == 0 ? 100 : 300'000 + i, static_cast<char>('a' + i));
      a.QueueSlot({7, i + 1, 99, static_cast<std::uint32_t>(data[i].size())},
                  reinterpret_cast<const std::byte*>(data[i].data()));
      if (i % 4 == 0) a.QueueControl(Bytes("message"));
    }
    // Nothing is heard of them before it is asked for.
    bool moved = false;
    const auto give_up = Deadline::After(std::chrono::seconds(20));
    while (at_b.order.size() < data.size() && !give_up.Passed()) {
      ASSERT_TRUE(a.Flush(at_a)) << a.why();
      ASSERT_TRUE(b.Receive(at_b, moved)) << b.why();
    }
    const std::size_t at_once = at_a.sent.size();
    if (mode == Mode::off) {
      EXPECT_EQ(at_once, data.size());
    } else {
      EXPECT_EQ(at_once, data.size() / 3) << "the short ones";
    }
    while (at_a.sent.size() < data.size() && !give_up.Passed()) a.Reap(at_a);
    for (std::uint32_t i = 0; i < data.size(); ++i) {
      EXPECT_EQ(at_b.TextOf(i + 1), data[i]) << i;
      EXPECT_EQ(std::count(at_a.sent.begin(), at_a.sent.end(), i + 1), 1) << i;
    }
    // Over loopback the system copies, and says so: then it is no use.
    at_a.sent.clear();
    a.QueueSlot({7, 13, 99, 300'000}, reinterpret_cast<const std::byte*>(data[1].data()));
    while (at_b.order.size() <= data.size() && !give_up.Passed()) {
      ASSERT_TRUE(a.Flush(at_a)) << a.why();
      ASSERT_TRUE(b.Receive(at_b, moved)) << b.why();
    }
    EXPECT_EQ(at_a.sent.empty(), mode == Mode::always);
  }
}

TEST(TcpStream, EndsAreTold) {
  Pair pair;
  pair.a->QueueControl(Bytes("last words"));
  ASSERT_TRUE(pair.a->Flush(pair.at_a));
  pair.a.reset();
  bool moved = false;
  while (pair.b->Receive(pair.at_b, moved)) {
  }
  EXPECT_EQ(pair.at_b.texts, std::vector<std::string>{"last words"});
  EXPECT_EQ(pair.b->why(), "its connection was closed");
}

TEST(TcpStream, NonsenseEndsTheConnection) {
  for (const int kind : {0, 1, 2, 3}) {
    Pair pair;
    if (kind == 0) pair.a->QueueControl(Bytes("nonsense"));
    if (kind == 1) pair.a->QueueSlot({101, 1, 1, 0}, nullptr);
    if (kind == 2) pair.a->QueueControl(std::vector<std::byte>(kMaxControlBytes + 1));
    if (kind == 3) {
      const std::string garbage(64, '\x55');
      ASSERT_EQ(send(pair.a->socket().fd(), garbage.data(), garbage.size(), 0), 64);
    }
    ASSERT_TRUE(pair.a->Flush(pair.at_a));
    bool moved = false;
    EXPECT_FALSE(pair.b->Receive(pair.at_b, moved)) << kind;
    EXPECT_EQ(pair.b->why(), "it sent something that makes no sense");
  }
}

}  // namespace
}  // namespace tutti
