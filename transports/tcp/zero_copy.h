// Sends data in place (MSG_ZEROCOPY): the system reads it there until the peer has acknowledged it, and reports on the
// socket's error queue when it no longer needs it. Linux, Documentation/networking/msg_zerocopy.rst.
//
// Between namespaces of one machine, and over loopback, the system copies nevertheless and reports it: such a
// connection returns to ordinary sends, which cost less than a copy with a report.
//
// Thread-safety: one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "net/socket.h"
#include "transports/progress/network_transport.h"

namespace tutti::tcp {

class ZeroCopySends {
 public:
  enum class Mode {
    off,
    useful,  // as long as the system does not copy
    always,  // for tests
  };

  // Also off where the kernel does not have it (before 4.14, and sockets that are not TCP's).
  ZeroCopySends(const net::Socket& socket, Mode mode);

  bool IsWorth(std::size_t bytes) const;
  // Like send(), for data of `slot`, in place. Memory that the system may not lock is copied after all.
  ssize_t Send(const net::Socket& socket, const progress::SlotMessage& slot, const std::byte* data, std::size_t bytes);
  // The system has all of the slot that was sent last. True: it still reads it, and Reap() will report its end.
  bool Lend();
  // Calls events.Sent() for slots of `peer` that the system no longer needs. True: there were reports.
  bool Reap(const net::Socket& socket, int peer, progress::NetworkTransportEvents& events);

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

}  // namespace tutti::tcp
