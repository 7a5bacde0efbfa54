// TCP sockets as values: addresses, owning descriptors, non-blocking I/O and waits that end.
//
// Every socket made here is non-blocking, closed on exec, and never raises SIGPIPE. Interrupted calls are resumed.
// Thread-safety: one thread per object at a time; no shared state.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/file_descriptor.h"
#include "base/threads/cancellation.h"

struct sockaddr;

namespace tutti::net {

// An IPv4 or IPv6 address with a port. An IPv4 address that is mapped into IPv6 becomes IPv4 when it is read, so every
// machine has one form.
struct SocketAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> ip{};  // network order; IPv4 uses the first four, the rest are zero
  std::uint32_t scope = 0;            // IPv6 interface index of link-local addresses; otherwise 0
  std::uint16_t port = 0;

  static SocketAddress Loopback(bool v6, std::uint16_t port);
  static SocketAddress Wildcard(bool v6, std::uint16_t port);
  // Numeric only, "10.0.0.1", "fe80::1%eth0"; nullopt for anything else.
  static std::optional<SocketAddress> Parse(const std::string& ip, std::uint16_t port);
  // nullopt for other families.
  static std::optional<SocketAddress> From(const sockaddr* address);

  bool IsLoopback() const;
  bool IsLinkLocal() const;
  bool IsWildcard() const;
  // "10.0.0.1", "fe80::1%2".
  std::string IpText() const;
  // "10.0.0.1:29500", "[::1]:29500".
  std::string Text() const;

  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

// "10.0.0.1:1, [::1]:2".
std::string TextOf(const std::vector<SocketAddress>& addresses);

// Owns a file descriptor, which is none of the standard ones.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void Close() { fd_.Close(); }
  // Ends the connection or the listening for all holders, also for copies that a fork has left in other processes.
  void Shutdown() const;
  // Ends it in one direction: the other end sees that nothing more comes.
  void ShutdownSending() const;
  // Ends a TCP connection at once: what the system still holds to be sent is dropped, and the other end sees a reset.
  void Abort() const;

 private:
  FileDescriptor fd_;
};

struct ListenResult {
  Socket socket;
  int error = 0;  // errno when there is no socket
};
// Port 0: the system chooses. The IPv6 wildcard also takes IPv4 connections.
ListenResult Listen(const SocketAddress& address);
// Listens on as many of the addresses as possible. `error`: why not on all of them. Returns none if a port is taken on
// one: half a service on a port would split its clients.
std::vector<Socket> ListenOn(const std::vector<SocketAddress>& addresses, int& error);
// Likewise. Throws tuttiSystemError if none can listen; the message says that `who` cannot.
std::vector<Socket> ListenOnAll(const std::vector<SocketAddress>& addresses, std::string_view who);
// REQUIRES: an open socket of either family. Throws tuttiSystemError if the system cannot tell.
SocketAddress LocalAddress(const Socket& socket);
// Likewise; none if the system cannot tell.
std::optional<SocketAddress> FindLocalAddress(const Socket& socket);
std::optional<SocketAddress> PeerAddress(const Socket& socket);

enum class AcceptStatus { accepted, none, exhausted };
struct AcceptResult {
  Socket socket;
  AcceptStatus status = AcceptStatus::none;  // exhausted: out of descriptors or memory; the connection still waits
};
AcceptResult Accept(const Socket& listener);

struct ConnectResult {
  Socket socket;  // connected, or connecting: wait for POLLOUT, then ask ConnectError
  int error = 0;
};
ConnectResult StartConnect(const SocketAddress& address);
// 0: connected. Also refuses a socket that met itself, which TCP allows on a local port without a listener.
int ConnectError(const Socket& socket);

// Makes the system end the connection, while it is idle, when the other end's system has not answered for about
// `silence`.
void KeepAlive(const Socket& socket, Deadline::Milliseconds silence);

enum class IoStatus { moved, would_block, closed };
struct IoResult {
  std::size_t bytes = 0;
  IoStatus status = IoStatus::moved;
};
// REQUIRES: non-empty bytes. Resets and other errors of the connection are `closed`.
IoResult SendSome(const Socket& socket, std::span<const std::byte> bytes);
IoResult ReceiveSome(const Socket& socket, std::span<std::byte> bytes);

enum class Wake { event, deadline, cancelled };
// Waits for an event, the deadline, or `cancel` (checked every kCancelPeriod; may be unset). Events win over the
// deadline, cancellation wins over both.
Wake Wait(std::span<pollfd> fds, Deadline deadline, Cancellation cancel = {});

inline constexpr Deadline::Milliseconds kCancelPeriod = Lookout::kLongestSleep;

}  // namespace tutti::net
