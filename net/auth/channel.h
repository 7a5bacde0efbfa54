// A proven connection: sends and receives sealed frames without blocking.
//
// Queue() never fails; bytes that the socket does not take wait for the next Flush(). Once closed(), the channel stays
// so: the peer has gone, or the stream was tampered with. Frames that had arrived before are still returned.
// Thread-safety: one thread at a time.
#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "net/auth/frame.h"
#include "net/socket.h"

namespace tutti::auth {

class SecureChannel {
 public:
  SecureChannel(net::Socket socket, const SecretKey& sending, const SecretKey& receiving)
      : socket_(std::move(socket)), sealer_(sending), opener_(receiving) {}

  // Seals a frame and tries to send it at once. REQUIRES: payload.size() <= kMaxFramePayload.
  void Queue(std::span<const std::byte> payload);
  // Sends what the socket takes.
  void Flush();
  // Whether some queued bytes are not with the system yet.
  bool sending() const { return sent_ < out_.size() && !cannot_send_; }
  // The next whole frame that has arrived.
  std::optional<std::vector<std::byte>> Receive();
  bool closed() const { return closed_; }

  // The events to wait for: input always, room to send while sending().
  pollfd Watch() const {
    return {.fd = socket_.fd(), .events = static_cast<short>(POLLIN | (sending() ? POLLOUT : 0)), .revents = 0};
  }
  const net::Socket& socket() const { return socket_; }
  // Ends the connection for the peer, even if another process holds a copy of the socket.
  void Shutdown() { socket_.Shutdown(); }

 private:
  net::Socket socket_;
  FrameSealer sealer_;
  FrameOpener opener_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;  // bytes of out_ that are with the system
  bool cannot_send_ = false;
  bool closed_ = false;
};

}  // namespace tutti::auth
