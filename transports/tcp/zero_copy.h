// Sends that leave data where it lies (MSG_ZEROCOPY): the system reads it there until the peer has acknowledged it, and
// says on the socket's error queue when it needs it no more. Linux, Documentation/networking/msg_zerocopy.rst.
//
// Between namespaces of one machine, and over loopback, the system copies all the same, and says that, too: such a
// connection goes back to ordinary sends, which cost less than a copy that is announced.
//
// Thread-safety: one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "net/socket.h"
#include "transports/progress/carrier.h"

namespace tutti {

class ZeroCopySends {
 public:
  enum class Mode {
    off,
    useful,  // as long as the system does not copy
    always,  // for tests
  };

  // Off, too, where the kernel does not have it (before 4.14, and sockets that are not TCP's).
  ZeroCopySends(const Socket& socket, Mode mode);

  bool IsWorth(std::size_t bytes) const;
  // As send(), of data of `slot`, from where it lies. What the system may not lock is copied after all.
  ssize_t Send(const Socket& socket, const SlotMessage& slot, const std::byte* data, std::size_t bytes);
  // The slot that was sent last is with the system, all of it. True: which reads it yet, and Reap() will tell.
  bool Lend();
  // Tells events.Sent() of slots of `peer` that the system has done with. True: there was news.
  bool Reap(const Socket& socket, int peer, CarrierEvents& events);

 private:
  struct Lent {
    std::uint32_t connection, number;
    std::uint32_t first;        // call
    std::uint32_t calls = 0;    // from there on
    std::uint32_t answers = 0;  // of those
    bool complete = false;      // all of the slot has been given
    bool free() const { return complete && answers == calls; }
  };

  void Answered(std::uint32_t first, std::uint32_t last);

  Mode mode_;
  std::uint32_t calls_ = 0;  // as the kernel counts them, modulo 2^32
  std::vector<Lent> lent_;   // a ring's depth at the most, for each of few rings
};

}  // namespace tutti
