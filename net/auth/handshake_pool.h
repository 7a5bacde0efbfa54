// New connections wait here until they have proven that they hold the key (handshake.h, the server's side).
//
// A client costs at most one descriptor and some hundred bytes, for at most kHandshakeTime in all, whether it sends
// nothing, garbage, or a byte a second. All clients together cost at most kMaxStrangers descriptors. Beyond that, each
// new connection evicts another one from the place that has the most: the one that has been silent longest, or else the
// oldest. A place is an IPv4 address, or an IPv6 network of 64 bits, because whoever has one IPv6 address has a network
// of them. Among places with equally many, those with a silent connection come first, and then chance decides. So a
// flood from one place evicts its own connections, and a client that speaks at once stays. Every connection advances by
// itself, so none delays another. An honest client that was evicted comes again.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "base/clocks/deadline.h"
#include "net/auth/channel.h"
#include "net/auth/handshake.h"
#include "net/socket.h"

namespace tutti::auth {

inline constexpr Deadline::Milliseconds kHandshakeTime{5'000};
inline constexpr std::size_t kMaxStrangers = 256;

// A connection whose two ends have proven themselves; nothing beyond the client's proof has been read.
struct Admitted {
  net::Socket socket;
  SessionKeys keys;
  int rank;
  int nranks;
  int callee;
  KeyName key_name;

  // For frames (frame.h). The first one, empty, tells the client that it was admitted.
  SecureChannel OpenChannel() &&;
};

class HandshakePool {
 public:
  // Who answers a client: rank `rank`, or kCentre.
  struct Server {
    SecretKey key;
    std::uint32_t rank = kCentre;
  };
  // nullopt: the client is dropped without an answer.
  using FindServer = std::function<std::optional<Server>(const ClientHello&)>;

  // REQUIRES: the listeners listen.
  HandshakePool(std::vector<net::Socket> listeners, FindServer find);
  // One server.
  HandshakePool(std::vector<net::Socket> listeners, const SecretKey& key, Purpose purpose, int rank);

  // Appends the descriptors that this waits for; the same entries, in the same order, then go to Advance.
  void Watch(std::vector<pollfd>& fds) const;
  // Number of entries that Watch appends.
  std::size_t watched() const { return listeners() + strangers_.size(); }
  std::size_t listeners() const { return paused_ ? 0 : listeners_.size(); }
  // The time at which Advance must be called even if nothing happens.
  Deadline NextDeadline() const;
  // Does what can be done now, and appends proven connections. REQUIRES: `fds` is what Watch appended last.
  void Advance(std::span<const pollfd> fds, std::vector<Admitted>& admitted);
  // Ends listening, for copies of the sockets in forked processes as well, and drops all connections.
  void Close();

 private:
  struct Stranger {
    net::Socket socket;
    Deadline deadline;
    net::SocketAddress from;
    bool greeted = false;  // its ClientHello is here and our ServerHello went out; now its proof is awaited
    std::size_t received = 0;
    std::array<std::byte, std::max(kClientHelloBytes, kProofBytes)> buffer;
    ClientHello hello;
    Server server;
    SecretKey secret;  // of our share
    ServerHello reply;
  };
  enum class Step { waiting, admitted, put_out };

  void TakeNew(const net::Socket& listener);
  void PutOutOne();
  Step Advance(Stranger& stranger, std::vector<Admitted>& admitted);
  bool Greet(Stranger& stranger);
  bool Prove(Stranger& stranger, std::vector<Admitted>& admitted);

  std::vector<net::Socket> listeners_;
  FindServer find_;
  std::list<Stranger> strangers_;  // oldest first
  bool paused_ = false;            // out of descriptors: listening rests until resume_
  Deadline resume_ = Deadline::Never();
};

}  // namespace tutti::auth
