// The client's side of the handshake (handshake.h) on a connected socket, as far as it gets without blocking.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "net/auth/handshake.h"
#include "net/socket.h"

namespace tutti::auth {

// The calling and the called rank, and the purpose.
struct Errand {
  Purpose purpose = Purpose::rendezvous;
  int rank = 0;
  int callee = kCentre;
  int nranks = 1;
};

class ClientHandshake {
 public:
  enum class State {
    waiting,   // for input
    proven,    // both have proven themselves
    dropped,   // the server hung up
    foreign,   // it speaks something else
    stranger,  // the two do not hold the same key
    misled,    // it answers for another rank than the one that was called
    unjudged,  // the system cannot tell, perhaps only now, which user it belongs to: see refusal()
    refused    // it belongs to another user of this machine: see refusal()
  };

  // REQUIRES: `socket` is connected.
  ClientHandshake(net::Socket socket, const Errand& errand);

  // Does what can be done now; nothing beyond the server's proof is read.
  State Advance(const SecretKey& key);
  const net::Socket& socket() const { return socket_; }
  // The server has sent its hello, but not yet its proof.
  bool answered() const { return step_ == Step::await_proof; }
  // The rank that the server answers for, if it has said so; it may lie until `proven`.
  int answers_for() const { return static_cast<int>(server_.rank); }
  // Why this process does not talk to it. REQUIRES: unjudged or refused.
  const std::string& refusal() const { return refusal_; }
  // REQUIRES: proven.
  net::Socket TakeSocket() { return std::move(socket_); }
  const SessionKeys& keys() const { return *keys_; }

 private:
  enum class Step { hello, await_hello, await_proof };

  bool Send(std::span<const std::byte> bytes) const;
  // waiting: some of the `needed` bytes are missing; proven: all are here.
  State Read(std::size_t needed);

  net::Socket socket_;
  KeyPair pair_ = KeyPair::Fresh();
  ClientHello hello_;
  Step step_ = Step::hello;
  std::size_t received_ = 0;
  std::array<std::byte, std::max(kServerHelloBytes, kProofBytes)> bytes_{};
  ServerHello server_;
  std::optional<SessionKeys> keys_;
  std::string refusal_;
  bool gone_ = false;  // it had closed before its owner was looked up
};

}  // namespace tutti::auth
