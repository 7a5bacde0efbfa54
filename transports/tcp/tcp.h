// The TCP transport: some connections to each peer that is needed, made on demand, over the interfaces that the
// settings choose. The lower rank dials; the higher one also dials if it waits long, because only a call reveals that a
// peer is gone. Every connection proves that it holds the job's secret before a byte of it is accepted
// (net/auth/handshake.h).
//
// A peer is silent when its *system* is: a program that stops in a debugger still has a system that acknowledges.
//
// Thread-safety: one thread at a time.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "base/settings/settings.h"
#include "net/auth/client_handshake.h"
#include "net/auth/doorkeeper.h"
#include "transports/progress/network_transport.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/hot_connections.h"

namespace tutti::tcp {

class TcpTransport final : public progress::NetworkTransport {
 public:
  // Collective over all ranks: opens ports and learns the others'. Connects to `peers` only. Throws tuttiInvalidUsage
  // naming the settings when no interface fits, tuttiSystemError.
  TcpTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
               const AllGather& all_gather, progress::NetworkTransportEvents& events);
  ~TcpTransport() override;

  void Connect(int peer) override;
  void Hurry(int peer) override;
  bool lands_in_place() const override { return true; }
  int Room(int peer) const override;
  void Send(int peer, const progress::SlotMessage& message, const std::byte* data) override;
  void SendControl(int peer, std::span<const std::byte> message) override;
  void Flush(int peer) override;
  // Advance() mostly looks at the likely next connection only, AdvanceAll() at all, for callers that ask rarely.
  bool Advance() override;
  bool AdvanceAll();
  void LookForSilence() override;
  int descriptor() const override { return epoll_.get(); }
  Deadline::Milliseconds LongestWait() const override;
  void Abandon(int peer) override;
  void Close() override;
  bool Reaches(int peer) const override;
  bool Delivered(int peer) const override;

 private:
  // One try to connect to one address.
  struct Attempt {
    net::Socket socket;  // until it is connected
    std::optional<auth::ClientHandshake> handshake;
    std::size_t address = 0;
    Deadline deadline;
  };
  // One connection on its way.
  struct Dialling {
    std::size_t first = 0;  // address
    std::size_t tried = 0;
    std::optional<Attempt> attempt;
    Deadline retry;      // without an attempt
    bool alive = false;  // in this round a process might have been there
  };
  // A connection to the peer has ended.
  struct Ending {
    std::string why;
    Deadline until;  // for what it has sent on others
  };
  struct Peer {
    std::vector<net::SocketAddress> addresses;
    std::vector<std::unique_ptr<TcpConnection>> connections;
    std::list<Dialling> dials;
    bool wanted = false;
    bool broken = false;
    std::optional<Ending> ending;
    bool nobody = false;               // no process listens at its port any more
    std::optional<Deadline> dial_at;   // the higher rank's patience
    std::optional<Deadline> judge_by;  // since the system cannot tell whose process answers there
    Deadline give_up = Deadline::Never();
    std::string reason;                            // why the last attempt failed
    std::vector<std::vector<std::byte>> messages;  // short ones that wait for a connection
  };

  static constexpr Deadline::Milliseconds kSilenceLook{500};
  static constexpr const char* kNotWatched = "this system does not watch the connection (epoll_ctl)";
  // epoll's data: a peer's rank and the index of its connection; or this.
  static constexpr std::uint64_t kNewcomer = ~std::uint64_t{0};
  static constexpr std::uint64_t WhoIs(int rank, std::size_t connection) {
    return std::uint64_t{connection} << 32 | static_cast<std::uint32_t>(rank);
  }

  Peer& At(int peer) { return peers_.at(peer); }
  const Peer& At(int peer) const { return peers_.at(peer); }
  bool Watched(int fd, std::uint32_t events, int operation, std::uint64_t who) const;
  // Makes the connections of these numbers.
  void Dial(int rank, std::size_t begin, std::size_t end);
  bool AdvanceDials(int rank);
  bool SystemAnswers(const Peer& peer) const;
  bool AdvanceDial(int rank, Dialling& dial);
  void BeginAttempt(int rank, Dialling& dial);
  void Missed(Peer& peer, Dialling& dial, bool alive, const std::string& reason);
  void Add(int rank, net::Socket socket, const auth::SecretKey& sending, const auth::SecretKey& receiving);
  bool AdmitCallers();
  void FlushConnection(int rank, TcpConnection& connection);
  bool AdvanceConnection(std::uint64_t who, std::uint32_t events);
  bool ConnectionsAreMade(const Peer& peer) const;
  void NoteEnd(int rank, std::string why);
  bool EndPeers();
  void Break(int rank, std::string why);

  int rank_;
  int nranks_ = 0;
  int connections_to_each_;
  Deadline::Milliseconds silence_;
  auth::SecretKey key_;
  DataProtection protection_;
  progress::NetworkTransportEvents& events_;
  FileDescriptor epoll_;
  std::optional<auth::Doorkeeper> keeper_;
  std::vector<net::SocketAddress> own_;  // where this rank listens
  std::map<int, Peer> peers_;
  HotConnections hot_;
  std::vector<int> dialling_;  // peers with dials, or with dial_at
  std::vector<int> ending_;    // peers to which a connection has ended
  Deadline next_look_;         // for silence
};

}  // namespace tutti::tcp
