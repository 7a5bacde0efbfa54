#include "net/auth/doorkeeper.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/auth/client_handshake.h"
#include "net/net_testing.h"
#include "testing/own_network.h"

namespace tutti::auth {
namespace {

using testing::Ample;

constexpr Errand kErrand{Purpose::data, 0, 3, 4};

std::vector<net::Socket> One(net::Socket socket) {
  std::vector<net::Socket> sockets;
  sockets.push_back(std::move(socket));
  return sockets;
}

// A port with a short queue, and the doorkeeper of a rank.
class RankAtPort {
 public:
  explicit RankAtPort(int backlog = 8) {
    auto listener = net::Listen(net::SocketAddress::Loopback(false, 0)).socket;
    EXPECT_EQ(listen(listener.fd(), backlog), 0);
    address = net::LocalAddress(listener);
    port = std::make_shared<Port>(One(std::move(listener)));
    keeper.emplace(port, key, Purpose::data, 3);
  }

  net::SocketAddress address;
  SecretKey key = SecretKey::Random();
  std::shared_ptr<Port> port;
  std::optional<Doorkeeper> keeper;
};

ClientHandshake::State Call(const net::SocketAddress& address, const SecretKey& key, const Errand& errand,
                            std::optional<ClientHandshake>& handshake) {
  auto socket = net::StartConnect(address).socket;
  pollfd fd{socket.fd(), POLLOUT, 0};
  EXPECT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
  handshake.emplace(std::move(socket), errand);
  auto state = handshake->Advance(key);
  while (state == ClientHandshake::State::waiting) {
    fd = {handshake->socket().fd(), POLLIN, 0};
    EXPECT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
    state = handshake->Advance(key);
  }
  return state;
}

TEST(Doorkeeper, TakesInThoseWhoProveThemselvesWhileNobodyAsks) {
  RankAtPort port;
  std::vector<std::optional<ClientHandshake>> clients(40);
  for (auto& client : clients) EXPECT_EQ(Call(port.address, port.key, kErrand, client), ClientHandshake::State::proven);
  pollfd fd{port.keeper->descriptor(), POLLIN, 0};
  EXPECT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
  auto admitted = port.keeper->Take();
  const auto give_up = Ample();
  while (admitted.size() < clients.size() && !give_up.Passed()) {
    for (auto& one : port.keeper->Take()) admitted.push_back(std::move(one));
  }
  ASSERT_EQ(admitted.size(), clients.size());
  EXPECT_EQ(admitted[0].rank, kErrand.rank);
  EXPECT_EQ(admitted[0].nranks, kErrand.nranks);
  EXPECT_TRUE(admitted[0].keys.client_to_server == clients[0]->keys().client_to_server);
  fd.revents = 0;
  EXPECT_EQ(poll(&fd, 1, 0), 0) << "readable though nobody is there";
}

TEST(Doorkeeper, StrangersNeitherFillThePortNorReachTheDataPath) {
  RankAtPort port;
  const testing::IdleCalls idle(port.address, 300);
  std::optional<ClientHandshake> client;
  EXPECT_EQ(Call(port.address, SecretKey::Random(), kErrand, client), ClientHandshake::State::stranger);
  pollfd fd{port.keeper->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&fd, 1, 0), 0) << "strangers make the data path's descriptor readable";
  EXPECT_EQ(Call(port.address, port.key, kErrand, client), ClientHandshake::State::proven);
}

TEST(Doorkeeper, TellsACallerThatMeansAnotherRank) {
  RankAtPort port;
  std::optional<ClientHandshake> client;
  EXPECT_EQ(Call(port.address, port.key, {Purpose::data, 0, 2, 4}, client), ClientHandshake::State::misled);
  EXPECT_EQ(client->answers_for(), 3);
  EXPECT_EQ(Call(port.address, port.key, {Purpose::membership_agreement, 0, 3, 4}, client),
            ClientHandshake::State::dropped);
  EXPECT_TRUE(port.keeper->Take().empty());
}

// The ranks of all communicators of a process, which may be several of one communicator, share a port.
TEST(Doorkeeper, EachGetsItsOwnCallersAtASharedPort) {
  RankAtPort rank;
  Doorkeeper neighbour(rank.port, rank.key, Purpose::data, 2);
  const auto other_key = SecretKey::Random();
  std::optional<Doorkeeper> other(std::in_place, rank.port, other_key, Purpose::membership_agreement, 3);
  const Errand to_neighbour{Purpose::data, 1, 2, 4}, to_other{Purpose::membership_agreement, 5, 3, 9};
  std::optional<ClientHandshake> client;
  EXPECT_EQ(Call(rank.address, rank.key, to_neighbour, client), ClientHandshake::State::proven);
  EXPECT_EQ(Call(rank.address, other_key, to_other, client), ClientHandshake::State::proven);
  for (auto* const keeper : {&neighbour, &*other}) {
    pollfd fd{keeper->descriptor(), POLLIN, 0};
    EXPECT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
    const auto admitted = keeper->Take();
    ASSERT_EQ(admitted.size(), 1U);
    EXPECT_EQ(admitted[0].rank, keeper == &neighbour ? 1 : 5);
  }
  EXPECT_TRUE(rank.keeper->Take().empty());
  // Who has given up its communicator is not there, though its process is.
  other.reset();
  EXPECT_EQ(Call(rank.address, other_key, to_other, client), ClientHandshake::State::stranger);
}

TEST(Port, IsSharedByAllWhoAskForTheSamePlaces) {
  const std::vector<net::SocketAddress> places{net::SocketAddress::Loopback(false, 0)};
  auto port = Port::At(places, "a rank");
  EXPECT_EQ(Port::At(places, "another rank"), port);
  const auto address = port->addresses()[0];
  port.reset();
  const auto late = net::StartConnect(address);
  EXPECT_TRUE(!late.socket || net::ConnectError(late.socket) == ECONNREFUSED);
}

TEST(Doorkeeper, ClosesThePortAndLeavesTheParentsAloneInAChild) {
  RankAtPort port;
  const pid_t child = fork();
  if (child == 0) {
    port.keeper.reset();
    port.port.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::optional<ClientHandshake> client;
  EXPECT_EQ(Call(port.address, port.key, kErrand, client), ClientHandshake::State::proven);
  port.keeper.reset();
  port.port.reset();
  const auto late = net::StartConnect(port.address);
  EXPECT_TRUE(!late.socket || net::ConnectError(late.socket) == ECONNREFUSED);
}

// A handshake pool that a test advances.
struct Pool {
  explicit Pool(net::Socket listener) : handshakes(One(std::move(listener)), key, Purpose::data, 3) {}

  void Advance() {
    std::vector<pollfd> fds;
    handshakes.Watch(fds);
    poll(fds.data(), fds.size(), 0);
    handshakes.Advance(fds, admitted);
  }
  void ExpectToAdmit(ClientHandshake client) {
    auto state = client.Advance(key);
    const auto give_up = Ample();
    while (state == ClientHandshake::State::waiting && !give_up.Passed()) {
      Advance();
      state = client.Advance(key);
    }
    EXPECT_EQ(state, ClientHandshake::State::proven);
    EXPECT_EQ(admitted.size(), 1U);
  }

  const SecretKey key = SecretKey::Random();
  HandshakePool handshakes;
  std::vector<Admitted> admitted;
};

// A flood from one address evicts that address's own connections; loopback has many addresses.
TEST(HandshakePool, AFloodFromOnePlacePutsOutItsOwn) {
  auto listener = net::Listen(net::SocketAddress::Wildcard(false, 0)).socket;
  auto address = net::SocketAddress::Loopback(false, net::LocalAddress(listener).port);
  Pool pool(std::move(listener));
  // A slow client from 127.0.0.2, which is the oldest, then more than there is room for from 127.0.0.1.
  address.ip[3] = 2;
  net::Socket slow(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  ASSERT_EQ(bind(slow.fd(), reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
  from.sin_port = htons(address.port);
  connect(slow.fd(), reinterpret_cast<sockaddr*>(&from), sizeof from);
  pool.Advance();
  address.ip[3] = 1;
  const testing::IdleCalls flood(address, 2 * static_cast<int>(kMaxStrangers));
  for (int i = 0; i < 20; ++i) pool.Advance();
  pool.ExpectToAdmit(ClientHandshake(std::move(slow), kErrand));
}

// A call from an address of one's own choice, in a namespace where all of fd99::/48 is local.
net::Socket CallFrom(const in6_addr& from, std::uint16_t port) {
  net::Socket calling(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(calling.fd(), IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof on);
  const sockaddr_in6 at{AF_INET6, 0, 0, from, 0};
  EXPECT_EQ(bind(calling.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  const sockaddr_in6 to{AF_INET6, htons(port), 0, IN6ADDR_LOOPBACK_INIT, 0};
  connect(calling.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  return calling;
}

// The bytes of the addresses that change from one call of a flood to the next: in one network of 64 bits, or in many.
struct Flood {
  const char* name;
  std::size_t first_byte;
};
class IPv6Flood : public ::testing::TestWithParam<Flood> {};

TEST_P(IPv6Flood, PutsOutItsOwn) {
  const testing::OwnNetwork network({"-6 route add local fd99::/48 dev lo", "-6 route add local fd01::/48 dev lo"});
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  auto listener = net::Listen(net::SocketAddress::Wildcard(true, 0)).socket;
  const auto port = net::LocalAddress(listener).port;
  Pool pool(std::move(listener));
  // A client with the lowest address of all, which has said hello when the flood comes.
  ClientHandshake client(CallFrom({{{0xfd, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}}, port), kErrand);
  pool.Advance();
  EXPECT_EQ(client.Advance(pool.key), ClientHandshake::State::waiting);
  pool.Advance();
  std::vector<net::Socket> flood;
  for (std::size_t i = 0; i < 2 * kMaxStrangers; ++i) {
    in6_addr from{{{0xfd, 0x99}}};
    from.s6_addr[GetParam().first_byte] = static_cast<std::uint8_t>(i >> 8);
    from.s6_addr[GetParam().first_byte + 1] = static_cast<std::uint8_t>(i);
    flood.push_back(CallFrom(from, port));
    pool.Advance();
  }
  pool.ExpectToAdmit(std::move(client));
}

INSTANTIATE_TEST_SUITE_P(, IPv6Flood, ::testing::Values(Flood{"one_network", 14}, Flood{"many_networks", 6}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::auth
