// The client's side of the handshake (handshake.h) on a connected socket, as far as it gets without blocking.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>

#include "net/handshake.h"
#include "net/socket.h"

namespace tutti {

class ClientHandshake {
 public:
  enum class State {
    waiting,  // for input
    proven,   // both have proven themselves, as far as we can tell: a server that doubts us hangs up
    dropped,  // the server hung up
    foreign,  // it speaks something else
    stranger  // it does not hold the key
  };

  // REQUIRES: `socket` is connected.
  ClientHandshake(Socket socket, Purpose purpose, int rank, int nranks);

  // Does what can be done now; nothing beyond the server's hello is read.
  State Advance(const SecretKey& key);
  const Socket& socket() const { return socket_; }
  // REQUIRES: proven.
  Socket TakeSocket() { return std::move(socket_); }
  SessionKeys Keys(const SecretKey& key) const { return DeriveSessionKeys(key, hello_, server_.nonce); }

 private:
  bool Send(std::span<const std::byte> bytes) const;

  Socket socket_;
  ClientHello hello_;
  bool said_hello_ = false;
  std::size_t received_ = 0;
  std::array<std::byte, kServerHelloBytes> bytes_{};
  ServerHello server_;
};

}  // namespace tutti
