#include "transports/progress/silence.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tutti::progress {
namespace {

// This many unanswered probes or retransmissions in a row are no accident.
constexpr int kUnanswered = 3;
// How long a call may take.
constexpr Deadline::Milliseconds kPatience{1'000};

// The `addresses` of the other end of `connection`, at any port; all `addresses` if none match.
std::vector<net::SocketAddress> SameWay(const std::vector<net::SocketAddress>& addresses,
                                        const net::Socket& connection) {
  const auto other = net::PeerAddress(connection);
  std::vector<net::SocketAddress> same;
  for (const auto& address : addresses) {
    if (other && address.ip == other->ip && address.v6 == other->v6) same.push_back(address);
  }
  return same.empty() ? addresses : same;
}

bool Ask(const net::Socket& socket, tcp_info& info) {
  socklen_t size = sizeof info;
  return getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
}

}  // namespace

std::optional<std::uint32_t> Silence(const net::Socket& socket, Deadline::Milliseconds silence) {
  tcp_info info{};
  if (!Ask(socket, info)) return std::nullopt;
  if (info.tcpi_retransmits + info.tcpi_probes < kUnanswered) return std::nullopt;
  if (info.tcpi_last_ack_recv < silence.count()) return std::nullopt;
  return info.tcpi_last_ack_recv;
}

bool Answers(const net::Socket& socket, Deadline::Milliseconds silence) {
  tcp_info info{};
  return Ask(socket, info) && info.tcpi_state == TCP_ESTABLISHED && !Silence(socket, silence);
}

std::optional<std::string> SilenceWatch::Look(const net::Socket& connection,
                                              const std::vector<net::SocketAddress>& addresses,
                                              Deadline::Milliseconds silence) {
  const auto ms = Silence(connection, silence);
  return Look(ms, ms ? SameWay(addresses, connection) : std::vector<net::SocketAddress>(), silence);
}

std::optional<std::string> SilenceWatch::Look(std::optional<std::uint32_t> ms,
                                              const std::vector<net::SocketAddress>& addresses,
                                              Deadline::Milliseconds silence) {
  if (!ms) {
    calls_.clear();
    return std::nullopt;
  }
  const auto nothing = fmt::format("its host has not answered for {} ms", *ms);
  if (*ms > 2 * silence.count() + kPatience.count()) return nothing;
  if (trusted_ && !trusted_->Passed()) return std::nullopt;
  if (!calling()) Call(addresses, Deadline::After(std::min<Deadline::Milliseconds>(kPatience, silence / 2)));
  switch (Hear()) {
    case Answer::waiting: return std::nullopt;
    case Answer::there:
      trusted_ = Deadline::After(silence);
      calls_.clear();
      return std::nullopt;
    case Answer::refused: calls_.clear(); return "its connection is silent, and its port is closed";
    case Answer::none: break;
  }
  calls_.clear();
  return nothing;
}

void SilenceWatch::Call(const std::vector<net::SocketAddress>& addresses, Deadline deadline) {
  refused_ = false;
  deadline_ = deadline;
  for (const auto& address : addresses) {
    auto call = net::StartConnect(address);
    if (call.socket) calls_.push_back(std::move(call.socket));
  }
}

SilenceWatch::Answer SilenceWatch::Hear() {
  bool there = false;
  std::erase_if(calls_, [&](const net::Socket& call) {
    pollfd fd{call.fd(), POLLOUT, 0};
    if (poll(&fd, 1, 0) <= 0) return false;
    const int error = net::ConnectError(call);
    there = there || error == 0;
    refused_ = refused_ || error == ECONNREFUSED;
    return true;
  });
  if (there) return Answer::there;
  if (!calls_.empty() && !deadline_.Passed()) return Answer::waiting;
  return refused_ ? Answer::refused : Answer::none;
}

}  // namespace tutti::progress
