// Where new connections wait until they have proven that they hold the key (handshake.h, the server's side).
//
// Whoever connects costs at most one descriptor and a hundred bytes, for at most kHandshakeTime in all, whether it
// sends nothing, garbage, or a byte a second; and all of them at most kMaxStrangers descriptors: the oldest is put out
// for a new one. Every connection advances by itself, so none delays another. An honest client that was put out comes
// again.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <cstddef>
#include <list>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "net/channel.h"
#include "net/handshake.h"
#include "net/socket.h"

namespace tutti {

inline constexpr Deadline::Milliseconds kHandshakeTime{5'000};
inline constexpr std::size_t kMaxStrangers = 256;

// A connection that has proven itself; nothing beyond its proof has been read.
struct Admitted {
  Socket socket;
  SessionKeys keys;
  int rank;
  int nranks;

  // For frames (frame.h). The first one, empty, tells the client that it was admitted.
  SecureChannel OpenChannel() &&;
};

class Lobby {
 public:
  // REQUIRES: the listeners listen.
  Lobby(std::vector<Socket> listeners, const SecretKey& key, Purpose purpose);

  // Appends what this waits for; the same entries, in the same order, then go to Advance.
  void Watch(std::vector<pollfd>& fds) const;
  // Number of entries that Watch appends.
  std::size_t watched() const { return listeners() + strangers_.size(); }
  std::size_t listeners() const { return paused_ ? 0 : listeners_.size(); }
  // When Advance must be called even if nothing happens.
  Deadline NextDeadline() const;
  // Does what can be done now, and appends whoever has proven itself. REQUIRES: `fds` is what Watch appended last.
  void Advance(std::span<const pollfd> fds, std::vector<Admitted>& admitted);
  // Ends listening, for copies of the sockets in forked processes as well, and puts everybody out.
  void Close();

 private:
  struct Stranger {
    Socket socket;
    Deadline deadline;
    bool greeted = false;  // its ClientHello is here and our ServerHello went out; now its proof is awaited
    std::size_t received = 0;
    std::array<std::byte, std::max(kClientHelloBytes, kClientProofBytes)> buffer;
    ClientHello hello;
    Nonce nonce;
  };
  enum class Step { waiting, admitted, put_out };

  void TakeNew(const Socket& listener);
  void PutOutOldest();
  Step Advance(Stranger& stranger);
  bool Greet(Stranger& stranger);

  std::vector<Socket> listeners_;
  SecretKey key_;
  Purpose purpose_;
  std::list<Stranger> strangers_;  // oldest first
  bool paused_ = false;            // out of descriptors: listening rests until resume_
  Deadline resume_ = Deadline::Never();
};

}  // namespace tutti
