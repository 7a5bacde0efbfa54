// A man in the middle between two ranks relays what they send and changes some of it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "base/all_gather.h"
#include "net/auth/handshake.h"
#include "net/net_testing.h"
#include "transports/progress/network_transport_testing.h"
#include "transports/tcp/tcp.h"

namespace tutti::progress {
namespace {

using testing::Ample;

// Called with each piece that goes one way; may change it. `offset`: of its first byte in the connection.
using Meddle = std::function<void(bool to_server, std::size_t offset, std::vector<std::byte>& piece)>;

// Relays connections to `target`.
class Relay {
 public:
  Relay(const net::SocketAddress& target, Meddle meddle)
      : listener_(net::Listen(net::SocketAddress::Loopback(false, 0)).socket),
        meddle_(std::move(meddle)),
        thread_([this, target] {
          while (!over_.load()) {
            pollfd fd{listener_.fd(), POLLIN, 0};
            if (poll(&fd, 1, 10) <= 0) continue;
            auto accepted = net::Accept(listener_);
            if (accepted.socket) Serve(accepted.socket, net::StartConnect(target).socket);
          }
        }) {}
  ~Relay() {
    over_.store(true);
    thread_.join();
  }
  std::uint16_t port() const { return net::LocalAddress(listener_).port; }

 private:
  void Serve(const net::Socket& client, const net::Socket& server) {
    std::array<std::size_t, 2> offsets{};
    while (!over_.load()) {
      std::array<pollfd, 2> fds{pollfd{client.fd(), POLLIN, 0}, pollfd{server.fd(), POLLIN, 0}};
      if (poll(fds.data(), fds.size(), 10) <= 0) continue;
      for (const std::size_t from : {0, 1}) {
        if (fds[from].revents == 0) continue;
        std::vector<std::byte> piece(65536);
        const auto got = net::ReceiveSome(from == 0 ? client : server, piece);
        if (got.status == net::IoStatus::closed) return;
        piece.resize(got.bytes);
        const auto offset = offsets[from];
        offsets[from] += piece.size();
        if (!piece.empty()) meddle_(from == 0, offset, piece);
        for (std::span<const std::byte> rest = piece; !rest.empty() && !over_.load();) {
          const auto sent = net::SendSome(from == 0 ? server : client, rest);
          if (sent.status == net::IoStatus::closed) return;
          rest = rest.subspan(sent.bytes);
        }
      }
    }
  }

  net::Socket listener_;
  Meddle meddle_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

constexpr std::size_t kHandshakeToServer = auth::kClientHelloBytes + auth::kProofBytes;
constexpr std::size_t kHandshakeToClient = auth::kServerHelloBytes + auth::kProofBytes;

// The message that GatherAddresses sends.
struct Listening {
  std::uint32_t count = 0;
  std::array<net::SocketAddress, 2 * net::kMaxAddressesPerFamily> at = {};
};

// Transports of three ranks on loopback; `mislead` changes where rank 0 believes that the others listen. Ranks of one
// process share a port, unless they have other addresses: rank 2 has those of its own family.
class NetworkTransports {
 public:
  explicit NetworkTransports(const std::function<void(std::array<Listening, 3>&)>& mislead,
                             const std::string& protection = "authenticate",
                             const std::string& family_of_rank2 = "inet") {
    Settings settings;
    settings.socket_ifname = "lo";
    settings.socket_family = "inet";
    settings.sockets = 1;
    settings.silence_ms = 2'000;
    settings.data_protection = protection;
    const auth::SecretKey key = auth::SecretKey::Random();
    std::barrier meeting(3);
    std::array<std::vector<std::byte>, 3> said;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        const AllGather all_gather = [&, rank](std::span<const std::byte> mine) {
          said[rank].assign(mine.begin(), mine.end());
          meeting.arrive_and_wait();
          std::vector<std::vector<std::byte>> all(said.begin(), said.end());
          if (rank == 0) {
            std::array<Listening, 3> listening;
            for (std::size_t r = 0; r < 3; ++r) std::memcpy(&listening[r], all[r].data(), sizeof(Listening));
            mislead(listening);
            for (std::size_t r = 0; r < 3; ++r) std::memcpy(all[r].data(), &listening[r], sizeof(Listening));
          }
          meeting.arrive_and_wait();
          return all;
        };
        Settings own = settings;
        if (rank == 2) own.socket_family = family_of_rank2;
        std::vector<int> peers;
        for (int peer = 0; peer < 3; ++peer) {
          if (peer != static_cast<int>(rank)) peers.push_back(peer);
        }
        transports[rank] =
            std::make_unique<tcp::TcpTransport>(static_cast<int>(rank), peers, key, own, all_gather, heard[rank]);
      });
    }
    for (auto& thread : threads) thread.join();
  }
  bool Until(const std::function<bool()>& done) {
    const auto give_up = Ample();
    while (!done() && !give_up.Passed()) {
      for (const auto& transport : transports) transport->AdvanceAll();
    }
    return done();
  }
  bool Meet() {
    transports[0]->Connect(1);
    return Until([&] { return transports[0]->Room(1) > 0 && transports[1]->Room(0) > 0; });
  }

  std::array<HeardEvents, 3> heard;
  std::array<std::unique_ptr<tcp::TcpTransport>, 3> transports;
};

// Rank 0 reaches rank 1 by way of a relay that meddles.
class OnPath : public ::testing::Test {
 protected:
  void Start(Meddle meddle, const std::string& protection = "authenticate") {
    ranks_.emplace(
        [&](std::array<Listening, 3>& listening) {
          auto& at = listening[1].at[0];
          relay_.emplace(at, std::move(meddle));
          at.port = relay_->port();
        },
        protection);
  }
  void Say(std::size_t from, int to, std::string_view text) {
    ranks_->transports[from]->SendControl(to, std::as_bytes(std::span(text)));
    ranks_->transports[from]->Flush(to);
  }
  // Sends rank 1 a slot, and then some more, in case it waits for more input.
  void SendSlots() {
    for (std::uint32_t number = 1; number <= 3; ++number) {
      const SlotMessage message{
          .connection = 1, .number = number, .tag = 9, .bytes = static_cast<std::uint32_t>(data_.size())};
      ranks_->transports[0]->Send(1, message, data_.data());
      ranks_->transports[0]->Flush(1);
    }
  }
  void ExpectRefusal(std::size_t rank) {
    ASSERT_TRUE(ranks_->Until([&] { return !ranks_->heard[rank].broken.empty(); }));
    EXPECT_NE(ranks_->heard[rank].broken.find("something between the hosts changes or injects data"), std::string::npos)
        << ranks_->heard[rank].broken;
  }

  std::vector<std::byte> data_ = std::vector<std::byte>(100'000, std::byte{7});
  std::optional<Relay> relay_;
  std::optional<NetworkTransports> ranks_;
};

TEST_F(OnPath, WhoOnlyRelaysChangesNothing) {
  Start([](bool, std::size_t, std::vector<std::byte>&) {});
  ASSERT_TRUE(ranks_->Meet());
  SendSlots();
  Say(1, 0, "hello");
  EXPECT_TRUE(ranks_->Until([&] { return ranks_->heard[1].order.size() == 3 && ranks_->heard[0].texts.size() == 1; }));
}

TEST_F(OnPath, AFlippedBitOfASlotIsNotBelieved) {
  for (const std::size_t at : {10U, 100U, 50'000U}) {
    for (const std::string protection : {"authenticate", "encrypt"}) {
      relay_.reset();
      Start(
          [at](bool to_server, std::size_t offset, std::vector<std::byte>& piece) {
            const std::size_t place = kHandshakeToServer + at;
            if (to_server && place >= offset && place < offset + piece.size()) piece[place - offset] ^= std::byte{1};
          },
          protection);
      ASSERT_TRUE(ranks_->Meet());
      SendSlots();
      ExpectRefusal(1);
      EXPECT_TRUE(ranks_->heard[1].order.empty());
    }
  }
}

TEST_F(OnPath, AnInjectedMessageIsNotBelieved) {
  // Injects a message in the unprotected form: a header (kind 2, its length) and the text.
  Start([said = false](bool to_server, std::size_t offset, std::vector<std::byte>& piece) mutable {
    if (to_server || offset + piece.size() < kHandshakeToClient || said) return;
    said = true;
    constexpr std::string_view kText = "failed";
    std::array<std::byte, 16> header{};
    header[0] = std::byte{2};
    header[12] = static_cast<std::byte>(kText.size());
    piece.insert(piece.end(), header.begin(), header.end());
    for (const char c : kText) piece.push_back(static_cast<std::byte>(c));
  });
  ASSERT_TRUE(ranks_->Meet());
  for (int i = 0; i < 3; ++i) Say(1, 0, "a message of the real peer's");
  ExpectRefusal(0);
  EXPECT_TRUE(ranks_->heard[0].texts.empty());
}

TEST_F(OnPath, ARepeatedPieceIsNotBelieved) {
  Start([](bool to_server, std::size_t offset, std::vector<std::byte>& piece) {
    if (!to_server || offset < kHandshakeToServer) return;
    const auto copy = piece;
    piece.insert(piece.end(), copy.begin(), copy.end());
  });
  ASSERT_TRUE(ranks_->Meet());
  Say(0, 1, "once");
  ExpectRefusal(1);
  EXPECT_EQ(ranks_->heard[1].texts.size(), 1U);
}

TEST_F(OnPath, AChangedHandshakeConnectsNobody) {
  // Changes the caller's proof: the other rank refuses, and the caller gives up with a message.
  Start([](bool to_server, std::size_t offset, std::vector<std::byte>& piece) {
    const std::size_t place = auth::kClientHelloBytes + 5;
    if (to_server && place >= offset && place < offset + piece.size()) piece[place - offset] ^= std::byte{1};
  });
  ranks_->transports[0]->Connect(1);
  ASSERT_TRUE(ranks_->Until([&] { return !ranks_->heard[0].broken.empty(); }));
  EXPECT_NE(ranks_->heard[0].broken.find("answers with another secret"), std::string::npos) << ranks_->heard[0].broken;
  EXPECT_EQ(ranks_->transports[1]->Room(0), 0);
}

TEST_F(OnPath, ConnectionsThatAreLedToAnotherRankAreRefused) {
  if (!testing::HasV6Loopback()) GTEST_SKIP() << "this machine has no IPv6";
  ranks_.emplace([](std::array<Listening, 3>& listening) { std::swap(listening[1], listening[2]); }, "authenticate",
                 "inet6");
  ranks_->transports[0]->Connect(1);
  ASSERT_TRUE(ranks_->Until([&] { return !ranks_->heard[0].broken.empty(); }));
  EXPECT_NE(ranks_->heard[0].broken.find("answers for rank 2"), std::string::npos) << ranks_->heard[0].broken;
  EXPECT_EQ(ranks_->transports[1]->Room(0), 0);
  EXPECT_EQ(ranks_->transports[2]->Room(0), 0);
}

}  // namespace
}  // namespace tutti::progress
