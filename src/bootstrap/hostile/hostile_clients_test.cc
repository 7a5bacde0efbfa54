// Attacks by strangers on a port while a real job meets at it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "net/auth/dial.h"
#include "net/net_testing.h"
#include "src/bootstrap/control_plane.h"
#include "src/bootstrap/rendezvous/rendezvous.h"
#include "testing/surroundings.h"

namespace tutti::bootstrap {
namespace {

using testing::AllRanks;
using testing::Ample;
using testing::ExpectNoErrors;
using testing::OnLoopback;
using testing::RunRanks;

net::Socket Connect(const net::SocketAddress& address) {
  auto result = net::StartConnect(address);
  pollfd fd{result.socket.fd(), POLLOUT, 0};
  if (result.socket) net::Wait({&fd, 1}, Ample());
  return std::move(result.socket);
}

void Send(const net::Socket& socket, std::span<const std::byte> bytes) {
  if (!bytes.empty()) net::SendSome(socket, bytes);
}

// All bytes that arrive until the peer closes or sends nothing for a while.
std::vector<std::byte> Drain(const net::Socket& socket, Deadline::Milliseconds patience) {
  std::vector<std::byte> all;
  for (;;) {
    std::array<std::byte, 4096> piece;
    const auto result = net::ReceiveSome(socket, piece);
    if (result.status == net::IoStatus::closed) return all;
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(result.bytes));
    pollfd fd{socket.fd(), POLLIN, 0};
    if (result.status == net::IoStatus::would_block &&
        net::Wait({&fd, 1}, Deadline::After(patience)) != net::Wake::event) {
      return all;
    }
  }
}

auth::ClientHello Hello(const auth::KeyPair& pair = auth::KeyPair::Fresh()) {
  return {auth::Purpose::rendezvous, 0, auth::kCentre, 2, {}, pair.share};
}

class HostileClients : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto why = testing::WhyEmulated("it computes proofs so slowly that the attacked rank answers too late");
    if (!why.empty()) GTEST_SKIP() << why;
  }
  // A job of four joins during `attack`, which begins before it and ends after it.
  void MeetDuring(const std::function<void(const net::SocketAddress&, const std::atomic<bool>& over)>& attack) {
    std::atomic<bool> over{false};
    std::atomic<bool> begun{false};
    std::thread attacker([&] {
      begun.store(true);
      attack(ticket_.addresses.front(), over);
    });
    while (!begun.load()) std::this_thread::yield();
    ExpectNoErrors(RunRanks(AllRanks(4), [&](int rank) {
      const auto plane = ControlPlane::Join(ticket_, 4, rank, OnLoopback(), Ample());
      EXPECT_EQ(plane->AllGather(testing::BlobOf(rank, 10), Ample()).size(), 4u);
    }));
    over.store(true);
    attacker.join();
  }

  JoinTicket ticket_ = OpenRendezvous(OnLoopback());
};

TEST_F(HostileClients, PortScanner) {
  MeetDuring([](const auto& address, const auto& over) {
    while (!over.load()) Connect(address);
  });
}

TEST_F(HostileClients, MoreHalfOpenConnectionsThanThereIsRoomFor) {
  std::vector<net::Socket> held;
  for (std::size_t i = 0; i < auth::kMaxStrangers + 50; ++i) held.push_back(Connect(ticket_.addresses.front()));
  MeetDuring([](const auto&, const auto&) {});
}

TEST_F(HostileClients, SlowLoris) {
  MeetDuring([](const auto& address, const auto& over) {
    std::vector<net::Socket> slow;
    for (int i = 0; i < 20; ++i) slow.push_back(Connect(address));
    const auto hello = auth::Encode(Hello());
    for (std::size_t at = 0; at < hello.size() && !over.load(); ++at) {
      for (const auto& socket : slow) Send(socket, std::span(hello).subspan(at, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
}

TEST_F(HostileClients, Garbage) {
  MeetDuring([](const auto& address, const auto& over) {
    while (!over.load()) {
      std::vector<std::byte> noise(1 + randombytes_uniform(5000));
      randombytes_buf(noise.data(), noise.size());
      Send(Connect(address), noise);
      constexpr std::string_view kHttp = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
      Send(Connect(address), net::BytesOf(kHttp));
    }
  });
}

TEST_F(HostileClients, WrongSecretLearnsNothingAndIsToldSo) {
  MeetDuring([this](const auto&, const auto&) {
    auto other = ticket_;
    other.secret = auth::SecretKey::Random();
    const auto errors = RunRanks({0}, [&](int rank) { ControlPlane::Join(other, 4, rank, OnLoopback(), Ample()); });
    ASSERT_TRUE(errors[0].has_value());
    // Once the real job has been served, the port is closed.
    EXPECT_TRUE(errors[0]->code() == tuttiInvalidUsage || errors[0]->code() == tuttiRemoteError) << errors[0]->what();
  });
}

TEST_F(HostileClients, AStrangerLearnsNothingAtWhichToTestGuesses) {
  const auto socket = Connect(ticket_.addresses.front());
  const auto hello = Hello();
  Send(socket, auth::Encode(hello));
  std::array<std::byte, auth::kServerHelloBytes + sizeof(auth::Mac)> all;
  pollfd fd{socket.fd(), POLLIN, 0};
  ASSERT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
  ASSERT_EQ(net::ReceiveSome(socket, all).bytes, auth::kServerHelloBytes) << "more than a share, which is random";
  const auto server = auth::DecodeServerHello(std::span(all).first<auth::kServerHelloBytes>());
  ASSERT_TRUE(server);
  // The server's own proof is not valid as a client's, either.
  Send(socket, auth::ServerProof(RendezvousKey(ticket_), hello, *server));
  EXPECT_EQ(Drain(socket, std::chrono::seconds(60)), std::vector<std::byte>(auth::kProofBytes)) << "more than a no";
  MeetDuring([](const auto&, const auto&) {});
}

TEST_F(HostileClients, ReplayedHandshake) {
  // A real client's bytes, recorded on its wire.
  const auto key = RendezvousKey(ticket_);
  const auto hello = Hello();
  std::vector<std::byte> recorded;
  {
    const auto socket = Connect(ticket_.addresses.front());
    const auto bytes = auth::Encode(hello);
    Send(socket, bytes);
    recorded.insert(recorded.end(), bytes.begin(), bytes.end());
    std::array<std::byte, auth::kServerHelloBytes> reply;
    pollfd fd{socket.fd(), POLLIN, 0};
    ASSERT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
    ASSERT_EQ(net::ReceiveSome(socket, reply).bytes, auth::kServerHelloBytes);
    const auto server = auth::DecodeServerHello(reply);
    const auto proof = auth::ClientProof(key, hello, *server);
    Send(socket, proof);
    recorded.insert(recorded.end(), proof.begin(), proof.end());
    // The server admits the real client and sends its proof.
    fd.revents = 0;
    ASSERT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
    auth::Mac answer;
    ASSERT_EQ(net::ReceiveSome(socket, answer).bytes, auth::kProofBytes);
    EXPECT_TRUE(auth::SameMac(answer, auth::ServerProof(key, hello, *server)));
  }
  const auto socket = Connect(ticket_.addresses.front());
  Send(socket, recorded);
  const auto got = Drain(socket, std::chrono::seconds(60));
  ASSERT_EQ(got.size(), auth::kServerHelloBytes + auth::kProofBytes) << "the replay got more than a hello and a no";
  EXPECT_TRUE(
      std::all_of(got.begin() + auth::kServerHelloBytes, got.end(), [](auto byte) { return byte == std::byte{0}; }));
  MeetDuring([](const auto&, const auto&) {});
}

TEST_F(HostileClients, ProvenClientThatSaysAHugeLength) {
  // Even a client that holds the secret cannot make the server allocate the length it claims.
  const auto hello = Hello();
  const auto socket = Connect(ticket_.addresses.front());
  Send(socket, auth::Encode(hello));
  std::array<std::byte, auth::kServerHelloBytes> reply;
  pollfd fd{socket.fd(), POLLIN, 0};
  ASSERT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
  ASSERT_EQ(net::ReceiveSome(socket, reply).bytes, auth::kServerHelloBytes);
  Send(socket, auth::ClientProof(RendezvousKey(ticket_), hello, *auth::DecodeServerHello(reply)));
  std::vector<std::byte> huge(auth::kFrameHeaderBytes, std::byte{0xff});
  Send(socket, huge);
  // The server's proof and its first frame, then closed.
  EXPECT_EQ(Drain(socket, std::chrono::seconds(60)).size(), auth::kProofBytes + auth::kFrameHeaderBytes);
  MeetDuring([](const auto&, const auto&) {});
}

TEST_F(HostileClients, RankZeroIsAttackedWhereItListens) {
  // After the rendezvous, the hub's port is the target: attack whatever this process listens on.
  std::atomic<bool> over{false};
  std::thread attacker([&] {
    while (!over.load()) {
      for (int fd = 3; fd < 200; ++fd) {
        int listening = 0;
        socklen_t size = sizeof(listening);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) continue;
        sockaddr_storage storage{};
        size = sizeof(storage);
        if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) continue;
        const auto address = net::SocketAddress::From(reinterpret_cast<sockaddr*>(&storage));
        if (!address || address->port == 0) continue;
        const auto socket = Connect(*address);
        if (!socket) continue;
        Send(socket, auth::Encode(
                         auth::ClientHello{auth::Purpose::hub, 1, auth::kCentre, 4, {}, auth::KeyPair::Fresh().share}));
        Send(socket, auth::KeyPair::Fresh().share);
      }
    }
  });
  for (int job = 0; job < 10; ++job) {
    const auto ticket = OpenRendezvous(OnLoopback());
    ExpectNoErrors(RunRanks(
        AllRanks(4), [&](int rank) { ControlPlane::Join(ticket, 4, rank, OnLoopback(), Ample())->Barrier(Ample()); }));
  }
  over.store(true);
  attacker.join();
}

TEST(HostileServer, StrangerOnThePortIsNotBelieved) {
  for (const bool garbage : {true, false}) {
    auto listener = net::Listen(net::SocketAddress::Loopback(false, 0)).socket;
    JoinTicket ticket;
    ticket.secret = auth::SecretKey::Random();
    ticket.addresses = {net::LocalAddress(listener)};
    std::thread server([&] {
      pollfd fd{listener.fd(), POLLIN, 0};
      net::Wait({&fd, 1}, Ample());
      auto accepted = net::Accept(listener);
      if (garbage) {
        Send(accepted.socket, net::BytesOf("SSH-2.0-OpenSSH_9.2p1\r\n"));
      } else {  // the right form, without the secret
        Send(accepted.socket, auth::Encode(auth::ServerHello{auth::kCentre, auth::KeyPair::Fresh().share}));
        Send(accepted.socket, auth::KeyPair::Fresh().share);
      }
      Drain(accepted.socket, std::chrono::seconds(60));
    });
    const auto errors = RunRanks({1}, [&](int rank) { ControlPlane::Join(ticket, 2, rank, OnLoopback(), Ample()); });
    server.join();
    testing::ExpectError(errors[0], tuttiInvalidUsage, {"does not hold this job's secret", ticket.addresses[0].Text()});
  }
}

}  // namespace
}  // namespace tutti::bootstrap
