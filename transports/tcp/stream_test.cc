#include "transports/tcp/stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>

#include "testing/surroundings.h"
#include "transports/progress/network_transport_testing.h"

namespace tutti::tcp {
namespace {

constexpr DataProtection kProtections[] = {DataProtection::none, DataProtection::authenticate, DataProtection::encrypt};

// The seals of both ends of a new connection with this protection.
struct Ends {
  explicit Ends(DataProtection how) : protection(how) {}
  TcpStream::Seals a() const { return {TcpSeal(protection, there), TcpSeal(protection, back)}; }
  TcpStream::Seals b() const { return {TcpSeal(protection, back), TcpSeal(protection, there)}; }

  DataProtection protection;
  auth::SecretKey there = auth::SecretKey::Random(), back = auth::SecretKey::Random();
};

class Pair {
 public:
  // Small buffers make writes and reads partial.
  explicit Pair(int buffer = 0, const Ends& ends = Ends(DataProtection::none)) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (const int fd : fds) {
      if (buffer != 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    }
    a = std::make_unique<TcpStream>(net::Socket(fds[0]), 1, ends.a());
    b = std::make_unique<TcpStream>(net::Socket(fds[1]), 0, ends.b());
  }
  // Runs until nothing moves.
  void Run() {
    for (bool moved = true; moved;) {
      moved = false;
      ASSERT_TRUE(a->Flush(at_a)) << a->why();
      ASSERT_TRUE(b->Receive(at_b, moved)) << b->why();
    }
  }

  std::unique_ptr<TcpStream> a, b;
  progress::HeardEvents at_a, at_b;
};

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(TcpStream, SlotsAndMessagesOfAllSizesInOrder) {
  std::mt19937 random(11);
  for (const int kind : {0, 1, 2, 3, 4, 5}) {
    Pair pair(kind % 2 == 0 ? 0 : 4096, Ends(kProtections[kind / 2]));
    std::vector<std::string> data;
    for (const std::size_t edge : {TcpStream::kTogether - 1, TcpStream::kTogether, TcpStream::kTogether + 1}) {
      data.emplace_back(edge, 'x');
    }
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

// The next call may want the second one elsewhere, and has not said so yet.
TEST(TcpStream, ALongSlotArrivesWithoutTheNextOne) {
  const std::string first(80'000, 'a'), second(80'000, 'b');
  for (const auto protection : kProtections) {
    Pair pair(0, Ends(protection));
    for (const auto& [number, text] : {std::pair(1U, &first), std::pair(2U, &second)}) {
      pair.a->QueueSlot({7, number, 99, static_cast<std::uint32_t>(text->size())},
                        reinterpret_cast<const std::byte*>(text->data()));
    }
    ASSERT_TRUE(pair.a->Flush(pair.at_a));
    ASSERT_EQ(pair.a->bytes_queued(), 0U) << "both wait in the system";
    for (bool moved = true; moved && pair.at_b.order.empty();) {
      moved = false;
      ASSERT_TRUE(pair.b->Receive(pair.at_b, moved));
    }
    EXPECT_EQ(pair.at_b.order, (std::vector<std::uint32_t>{1}));
    EXPECT_THROW(pair.at_b.TextOf(2), std::out_of_range) << "it has a place already";
    pair.Run();
    EXPECT_EQ(pair.at_b.TextOf(1), first);
    EXPECT_EQ(pair.at_b.TextOf(2), second);
  }
}

// Two ends of a TCP connection over loopback.
std::array<net::Socket, 2> Connected() {
  const net::Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.fd(), any, size), 0);
  EXPECT_EQ(listen(listener.fd(), 1), 0);
  EXPECT_EQ(getsockname(listener.fd(), any, &size), 0);
  net::Socket dialled(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(dialled.fd(), any, size), 0);
  return {std::move(dialled), net::Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC))};
}

TEST(TcpStream, LongSlotsStayInPlaceUntilTheSystemHasDoneWithThem) {
  using Mode = ZeroCopySends::Mode;
  if (const auto why = testing::WhyNoZeroCopy(); !why.empty()) GTEST_SKIP() << why;
  // The system locks memory that it sends in place, and an ordinary user may lock little.
  rlimit locked{};
  constexpr rlim_t kEnough = 16 << 20;
  if (geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < kEnough) {
    GTEST_SKIP() << "the limit of locked memory is " << locked.rlim_cur << " bytes";
  }
  for (const int kind : {0, 1, 2, 3, 4, 5}) {
    const auto mode = std::array{Mode::always, Mode::useful, Mode::off}[static_cast<std::size_t>(kind) % 3];
    auto [one, other] = Connected();
    const Ends ends(kProtections[kind / 3]);
    TcpStream a(std::move(one), 1, ends.a(), mode), b(std::move(other), 0, ends.b());
    progress::HeardEvents at_a, at_b;
    std::vector<std::string> data;
    for (std::uint32_t i = 0; i < 12; ++i) {
      data.emplace_back(i % 3 == 0 ? 100 : 300'000 + i, static_cast<char>('a' + i));
      a.QueueSlot({7, i + 1, 99, static_cast<std::uint32_t>(data[i].size())},
                  reinterpret_cast<const std::byte*>(data[i].data()));
      if (i % 4 == 0) a.QueueControl(Bytes("message"));
    }
    // No notice about them arrives before it is asked for.
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
    // Over loopback the system copies and reports that, so sending in place stops unless it is forced.
    at_a.sent.clear();
    a.QueueSlot({7, 13, 99, 300'000}, reinterpret_cast<const std::byte*>(data[1].data()));
    while (at_b.order.size() <= data.size() && !give_up.Passed()) {
      ASSERT_TRUE(a.Flush(at_a)) << a.why();
      ASSERT_TRUE(b.Receive(at_b, moved)) << b.why();
    }
    EXPECT_EQ(at_a.sent.empty(), mode == Mode::always);
  }
}

// The bytes on the wire for some items: a slot that is proven with its header, one that is not, and a message.
struct Wire {
  std::string bytes;
  std::vector<std::size_t> ends;  // of the items
};
const std::string kShort(100, 's'), kLong(TcpStream::kTogether + 1000, 'l');

Wire Record(TcpStream::Seals seals) {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  TcpStream stream(net::Socket(fds[0]), 1, std::move(seals));
  const net::Socket end(fds[1]);
  progress::HeardEvents events;
  Wire wire;
  const auto take = [&] {
    EXPECT_TRUE(stream.Flush(events));
    std::array<char, 16384> piece;
    const auto got = recv(end.fd(), piece.data(), piece.size(), 0);
    if (got > 0) wire.bytes.append(piece.data(), static_cast<std::size_t>(got));
    wire.ends.push_back(wire.bytes.size());
  };
  std::uint32_t number = 0;
  for (const auto* data : {&kShort, &kLong, &kShort}) {
    stream.QueueSlot({7, ++number, 99, static_cast<std::uint32_t>(data->size())},
                     reinterpret_cast<const std::byte*>(data->data()));
    take();
  }
  stream.QueueControl(Bytes("message"));
  take();
  return wire;
}

// Feeds `bytes` to a receiver: records its events, and returns whether the connection was still good at the end.
bool Receive(TcpStream::Seals seals, const std::string& bytes, progress::HeardEvents& events, std::string& why) {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  TcpStream stream(net::Socket(fds[0]), 0, std::move(seals));
  const net::Socket end(fds[1]);
  EXPECT_EQ(send(end.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  bool good = true;
  for (bool moved = true; good && moved;) {
    moved = false;
    good = stream.Receive(events, moved);
  }
  why = stream.why();
  return good;
}

TEST(TcpStream, NoChangedByteIsBelieved) {
  for (const auto protection : {DataProtection::authenticate, DataProtection::encrypt}) {
    const Ends ends(protection);
    const auto wire = Record(ends.a());
    std::string why;
    progress::HeardEvents whole;
    ASSERT_TRUE(Receive(ends.b(), wire.bytes, whole, why));
    ASSERT_EQ(whole.order, (std::vector<std::uint32_t>{1, 2, 3}));
    for (std::size_t at = 0; at < wire.bytes.size(); at += at % 64 == 40 && at > 200 && at < 5000 ? 97 : 1) {
      auto changed = wire.bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1 << at % 8);
      // A length that grew may leave the receiver waiting for bytes that complete the item and prove it wrong.
      changed += std::string(2 * TcpStream::kTogether, '\0');
      progress::HeardEvents heard;
      EXPECT_FALSE(Receive(ends.b(), changed, heard, why)) << at;
      EXPECT_NE(why.find("is not authentic"), std::string::npos) << why;
      const auto item = std::ranges::upper_bound(wire.ends, at) - wire.ends.begin();
      EXPECT_EQ(heard.order.size(), static_cast<std::size_t>(item < 3 ? item : 3)) << at;
      EXPECT_TRUE(heard.texts.empty()) << at;
    }
  }
}

TEST(TcpStream, NothingIsInjectedRepeatedDroppedOrSwapped) {
  const Ends ends(DataProtection::authenticate);
  const auto wire = Record(ends.a());
  const auto item = [&](std::size_t i) {
    const std::size_t begin = i == 0 ? 0 : wire.ends[i - 1];
    return wire.bytes.substr(begin, wire.ends[i] - begin);
  };
  const auto stranger = Record(Ends(DataProtection::authenticate).a()).bytes;
  const auto unprotected = Record({}).bytes;
  const struct {
    std::string bytes;
    std::size_t believed;
  } tries[] = {{item(0) + item(0), 1},
               {item(1) + item(0), 0},
               {item(0) + item(2) + item(1), 1},
               {item(0) + stranger, 1},
               {unprotected, 0},
               {item(0) + item(3), 1},
               {item(0) + unprotected, 1},
               {item(0) + item(1) + item(0), 2}};
  for (const auto& one : tries) {
    progress::HeardEvents heard;
    std::string why;
    EXPECT_FALSE(Receive(ends.b(), one.bytes + std::string(2 * TcpStream::kTogether, '\0'), heard, why));
    EXPECT_EQ(heard.order.size(), one.believed);
    EXPECT_TRUE(heard.texts.empty());
  }
  // The other direction's seals reject them, too.
  progress::HeardEvents heard;
  std::string why;
  EXPECT_FALSE(Receive(ends.a(), wire.bytes, heard, why));
}

TEST(TcpStream, EncryptedDataIsHidden) {
  for (const auto protection : kProtections) {
    const auto wire = Record(Ends(protection).a()).bytes;
    const bool seen = wire.find("llllllll") != std::string::npos || wire.find("ssssssss") != std::string::npos ||
                      wire.find("message") != std::string::npos;
    EXPECT_EQ(seen, protection != DataProtection::encrypt);
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
    if (kind == 2) pair.a->QueueControl(std::vector<std::byte>(progress::kMaxControlBytes + 1));
    if (kind == 3) {
      const std::string garbage(64, '\x55');
      ASSERT_EQ(send(pair.a->socket().fd(), garbage.data(), garbage.size(), 0), 64);
    }
    ASSERT_TRUE(pair.a->Flush(pair.at_a));
    bool moved = false;
    EXPECT_FALSE(pair.b->Receive(pair.at_b, moved)) << kind;
    EXPECT_EQ(pair.b->why(), "it sent a malformed message");
  }
}

}  // namespace
}  // namespace tutti::tcp
