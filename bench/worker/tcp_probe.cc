#include "bench/worker/tcp_probe.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPing = 8;
constexpr int kRoundTrips = 2000;
// The piece size into which libraries cut their largest messages. The stream lasts long enough to reach its pace.
constexpr std::size_t kPiece = 256 * 1024;
constexpr std::chrono::milliseconds kStreamTime{400};
constexpr std::chrono::milliseconds kPace{100};  // time for the stream to reach its pace, not counted

[[noreturn]] void Fail(const char* what) {
  throw std::runtime_error(fmt::format("plain TCP: {}: {}", what, std::strerror(errno)));
}

void Tune(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

// Polls, like a library in a blocking wait; while it waits, it yields the core.
void ReceiveAll(int fd, std::byte* data, std::size_t bytes, bool poll) {
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, data, bytes, poll ? MSG_DONTWAIT : 0);
    if (got == 0) throw std::runtime_error("plain TCP: the other side hung up");
    if (got < 0 && errno != EAGAIN && errno != EINTR) Fail("recv");
    if (got < 0) ::sched_yield();  // the other side may share the core
    if (got <= 0) continue;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void SendAll(int fd, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) Fail("send");
    if (sent <= 0) continue;
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Json ToJson(const TcpLimits& limits) {
  return {{"round_trip_us", limits.round_trip_us}, {"stream_GBps", limits.stream_gbps}};
}

TcpLimits TcpLimitsFromJson(const Json& json) { return {json.at("round_trip_us"), json.at("stream_GBps")}; }

TcpProbeServer::TcpProbeServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!listener_.valid() || ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(listener_.get(), 1) != 0) {
    Fail("listening");
  }
}

Json TcpProbeServer::Address() const {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) Fail("getsockname");
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {{"host", host.data()}, {"port", ntohs(own.sin_port)}};
}

void TcpProbeServer::Serve() {
  const Descriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer.valid()) Fail("accept");
  Tune(peer.get());
  std::array<std::byte, kPing> ping;
  for (int i = 0; i < kRoundTrips; ++i) {
    ReceiveAll(peer.get(), ping.data(), ping.size(), true);
    SendAll(peer.get(), ping.data(), ping.size());
  }
  const std::vector<std::byte> piece(kPiece);
  const auto begin = Clock::now();
  while (Clock::now() - begin < kPace + kStreamTime) SendAll(peer.get(), piece.data(), piece.size());
}

TcpLimits ProbeTcp(const Json& address) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = address.at("host"), port = std::to_string(address.at("port").get<int>());
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) {
    throw std::runtime_error(fmt::format("plain TCP: {} has no address", host));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const Descriptor peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!peer.valid() || ::connect(peer.get(), found->ai_addr, found->ai_addrlen) != 0) Fail("connecting");
  Tune(peer.get());

  TcpLimits limits;
  std::array<std::byte, kPing> ping{};
  std::vector<double> times;
  for (int i = 0; i < kRoundTrips; ++i) {
    const auto start = Clock::now();
    SendAll(peer.get(), ping.data(), ping.size());
    ReceiveAll(peer.get(), ping.data(), ping.size(), true);
    times.push_back(Seconds(Clock::now() - start) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + kRoundTrips / 2, times.end());
  limits.round_trip_us = times[kRoundTrips / 2];

  std::vector<std::byte> piece(kPiece);
  const auto begin = Clock::now();
  Clock::time_point from = begin, to = begin;
  double bytes = 0;
  // Reads to the end of the stream, because closing early would break the other side's last call.
  for (;;) {
    const ssize_t got = ::recv(peer.get(), piece.data(), piece.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail("recv");
    if (got == 0) break;
    const auto now = Clock::now();
    if (now - begin < kPace) {
      from = to = now;
    } else if (now - begin < kPace + kStreamTime) {
      to = now;
      bytes += static_cast<double>(got);
    }
  }
  limits.stream_gbps = to > from ? bytes / Seconds(to - from) / 1e9 : 0;
  return limits;
}

}  // namespace tutti::bench
