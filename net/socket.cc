#include "net/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace tutti::net {
namespace {

// All ranks of a big job may connect in the same millisecond; a dropped SYN costs a second. The kernel lowers this to
// its own limit (net.core.somaxconn).
constexpr int kBacklog = 4096;
// A silent host is given up after 10 + 4 * 5 = 30 seconds, the library's promise for remote ranks.
constexpr int kKeepIdleSeconds = 10;
constexpr int kKeepIntervalSeconds = 5;
constexpr int kKeepProbes = 4;

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

RawAddress ToRaw(const SocketAddress& address) {
  RawAddress raw;
  if (address.v6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    in.sin6_scope_id = address.scope;
    std::memcpy(&in.sin6_addr, address.ip.data(), sizeof(in.sin6_addr));
    std::memcpy(&raw.storage, &in, sizeof(in));
    raw.size = sizeof(in);
  } else {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.ip.data(), sizeof(in.sin_addr));
    std::memcpy(&raw.storage, &in, sizeof(in));
    raw.size = sizeof(in);
  }
  return raw;
}

void SetOption(const Socket& socket, int level, int name, int value) {
  // Options refine; a kernel without one still connects.
  [[maybe_unused]] const int status = setsockopt(socket.fd(), level, name, &value, sizeof(value));
}

// Asks for an answer after `idle` idle seconds, then `probes` times, `interval` apart, before the connection ends.
void SetProbes(const Socket& socket, int idle, int interval, int probes) {
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, probes);
}

void TuneConnection(const Socket& socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetProbes(socket, kKeepIdleSeconds, kKeepIntervalSeconds, kKeepProbes);
}

Socket OpenSocket(bool v6) {
  return Socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

SocketAddress SocketAddress::Loopback(bool v6, std::uint16_t port) {
  SocketAddress address{.v6 = v6, .port = port};
  if (v6) {
    address.ip[15] = 1;
  } else {
    address.ip = {127, 0, 0, 1};
  }
  return address;
}

SocketAddress SocketAddress::Wildcard(bool v6, std::uint16_t port) { return {.v6 = v6, .port = port}; }

std::optional<SocketAddress> SocketAddress::Parse(const std::string& ip, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  // inet_pton would do but for "%eth0"; it also refuses the short forms ("127.1") that getaddrinfo takes.
  if (ip.find(':') == std::string::npos) {
    in_addr v4{};
    if (inet_pton(AF_INET, ip.c_str(), &v4) != 1) return std::nullopt;
    hints.ai_family = AF_INET;
  } else {
    hints.ai_family = AF_INET6;
  }
  addrinfo* list = nullptr;
  if (getaddrinfo(ip.c_str(), nullptr, &hints, &list) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  auto address = From(list->ai_addr);
  if (address) address->port = port;
  return address;
}

std::optional<SocketAddress> SocketAddress::From(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  SocketAddress result;
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof(in));
    std::memcpy(result.ip.data(), &in.sin_addr, sizeof(in.sin_addr));
    result.port = ntohs(in.sin_port);
    return result;
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof(in));
    result.port = ntohs(in.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
      constexpr std::size_t kPrefix = sizeof(in6_addr) - sizeof(in_addr);
      std::copy_n(in.sin6_addr.s6_addr + kPrefix, sizeof(in_addr), result.ip.begin());
      return result;
    }
    result.v6 = true;
    std::memcpy(result.ip.data(), &in.sin6_addr, sizeof(in.sin6_addr));
    result.scope = in.sin6_scope_id;
    return result;
  }
  return std::nullopt;
}

bool SocketAddress::IsLoopback() const { return v6 ? ip == Loopback(true, 0).ip : ip[0] == 127; }

bool SocketAddress::IsLinkLocal() const {
  return v6 ? ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80 : ip[0] == 169 && ip[1] == 254;
}

bool SocketAddress::IsWildcard() const { return ip == std::array<std::uint8_t, 16>{}; }

std::string SocketAddress::IpText() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(v6 ? AF_INET6 : AF_INET, ip.data(), text.data(), text.size());
  return scope == 0 ? text.data() : fmt::format("{}%{}", text.data(), scope);
}

std::string SocketAddress::Text() const {
  return v6 ? fmt::format("[{}]:{}", IpText(), port) : fmt::format("{}:{}", IpText(), port);
}

std::string TextOf(const std::vector<SocketAddress>& addresses) {
  std::string text;
  for (const auto& address : addresses) text += (text.empty() ? "" : ", ") + address.Text();
  return text;
}

void Socket::Shutdown() const {
  if (fd_) shutdown(fd_.get(), SHUT_RDWR);
}

void Socket::ShutdownSending() const {
  if (fd_) shutdown(fd_.get(), SHUT_WR);
}

void Socket::Abort() const {
  sockaddr nothing{};
  nothing.sa_family = AF_UNSPEC;
  // Dissolves the connection (connect(2)); Linux also drops the queue, and with it what it was reading in place.
  if (fd_) connect(fd_.get(), &nothing, sizeof nothing);
}

ListenResult Listen(const SocketAddress& address) {
  Socket socket = OpenSocket(address.v6);
  if (!socket) return {Socket(), errno};
  SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // a finished job's connections in TIME_WAIT do not matter
  if (address.v6) SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, address.IsWildcard() ? 0 : 1);
  auto raw = ToRaw(address);
  if (bind(socket.fd(), raw.get(), raw.size) != 0) return {Socket(), errno};
  if (listen(socket.fd(), kBacklog) != 0) return {Socket(), errno};
  return {std::move(socket), 0};
}

std::vector<Socket> ListenOn(const std::vector<SocketAddress>& addresses, int& error) {
  std::vector<Socket> listeners;
  for (const auto& address : addresses) {
    auto result = Listen(address);
    if (result.socket) {
      listeners.push_back(std::move(result.socket));
    } else {
      error = result.error;
      if (error == EADDRINUSE) return {};
    }
  }
  return listeners;
}

std::vector<Socket> ListenOnAll(const std::vector<SocketAddress>& addresses, std::string_view who) {
  int error = 0;
  auto listeners = ListenOn(addresses, error);
  if (listeners.empty()) ThrowSystem(fmt::format("{} cannot listen on {}", who, TextOf(addresses)), error);
  return listeners;
}

SocketAddress LocalAddress(const Socket& socket) {
  const auto address = FindLocalAddress(socket);
  if (!address) ThrowErrno("cannot read a socket's own address");
  return *address;
}

std::optional<SocketAddress> FindLocalAddress(const Socket& socket) {
  RawAddress raw;
  raw.size = sizeof(raw.storage);
  if (getsockname(socket.fd(), raw.get(), &raw.size) != 0) return std::nullopt;
  return SocketAddress::From(raw.get());
}

std::optional<SocketAddress> PeerAddress(const Socket& socket) {
  RawAddress raw;
  raw.size = sizeof(raw.storage);
  if (getpeername(socket.fd(), raw.get(), &raw.size) != 0) return std::nullopt;
  return SocketAddress::From(raw.get());
}

AcceptResult Accept(const Socket& listener) {
  for (;;) {
    Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      TuneConnection(socket);
      return {std::move(socket), AcceptStatus::accepted};
    }
    switch (errno) {
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM: return {Socket(), AcceptStatus::exhausted};
      // That one connection was gone before it was taken; accept(2) asks for these to be treated as EAGAIN and retried.
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case EHOSTDOWN:
      case EHOSTUNREACH:
      case ENETDOWN:
      case ENETUNREACH: continue;
      default: return {Socket(), AcceptStatus::none};
    }
  }
}

ConnectResult StartConnect(const SocketAddress& address) {
  Socket socket = OpenSocket(address.v6);
  if (!socket) return {Socket(), errno};
  TuneConnection(socket);
  auto raw = ToRaw(address);
  // An interrupted non-blocking connect goes on by itself.
  if (connect(socket.fd(), raw.get(), raw.size) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return {Socket(), errno};
  }
  return {std::move(socket), 0};
}

int ConnectError(const Socket& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  if (error != 0) return error;
  const auto peer = PeerAddress(socket);
  if (!peer) return ENOTCONN;
  return peer == FindLocalAddress(socket) ? ECONNREFUSED : 0;
}

void KeepAlive(const Socket& socket, Deadline::Milliseconds silence) {
  constexpr int kProbes = 3;
  const int seconds = std::max(1, static_cast<int>(silence.count() / 1000));
  const int idle = std::max(1, seconds / 2);
  SetProbes(socket, idle, std::max(1, (seconds - idle) / kProbes), kProbes);
}

IoResult SendSome(const Socket& socket, std::span<const std::byte> bytes) {
  for (;;) {
    const auto sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return {static_cast<std::size_t>(sent), IoStatus::moved};
    if (errno == EINTR) continue;
    return {0, errno == EAGAIN || errno == EWOULDBLOCK ? IoStatus::would_block : IoStatus::closed};
  }
}

IoResult ReceiveSome(const Socket& socket, std::span<std::byte> bytes) {
  for (;;) {
    const auto got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got > 0) return {static_cast<std::size_t>(got), IoStatus::moved};
    if (got == 0) return {0, IoStatus::closed};
    if (errno == EINTR) continue;
    return {0, errno == EAGAIN || errno == EWOULDBLOCK ? IoStatus::would_block : IoStatus::closed};
  }
}

Wake Wait(std::span<pollfd> fds, Deadline deadline, Cancellation cancel) {
  // A wait without an end concludes nothing from the time, so it need not look. poll() takes an int of milliseconds.
  constexpr Deadline::Milliseconds kLongestSleep = std::chrono::hours(1);
  const bool looks = cancel.possible() || deadline != Deadline::Never();
  Lookout lookout;
  for (;;) {
    // Relaxed: the flag carries no data with it.
    if (cancel.requested()) return Wake::cancelled;
    const auto slice = std::min(deadline.Left(), looks ? kCancelPeriod : kLongestSleep);
    const int ready = poll(fds.data(), fds.size(), static_cast<int>(slice.count()));
    if (looks) lookout.Look();
    if (ready > 0) return Wake::event;
    if (ready < 0 && errno != EINTR) ThrowErrno("cannot wait for sockets");
    if (deadline.Passed()) return Wake::deadline;
  }
}

}  // namespace tutti::net
