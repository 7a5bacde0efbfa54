#include "transports/tcp/connection.h"

#include <algorithm>
#include <utility>

namespace tutti::tcp {

std::size_t TurnOf(const net::Socket& socket, const std::vector<net::SocketAddress>& own, int rank) {
  const auto here = net::FindLocalAddress(socket);
  const auto same = [&](const net::SocketAddress& address) {
    return here && address.v6 == here->v6 && address.ip == here->ip;
  };
  const auto place = static_cast<std::size_t>(std::ranges::find_if(own, same) - own.begin());
  if (place == own.size()) return place;  // an interface that peers do not know
  return (place + own.size() - static_cast<std::size_t>(rank) % own.size()) % own.size();
}

TcpConnection* Shortest(const std::vector<std::unique_ptr<TcpConnection>>& lines, bool by_way) {
  if (lines.size() < 2) return lines.empty() ? nullptr : lines.front().get();
  const auto length = [by_way](const auto& line) {
    return std::pair(by_way ? line->stream.bytes_on_the_way() : line->stream.bytes_queued(), line->turn);
  };
  return std::ranges::min_element(lines, {}, length)->get();
}

}  // namespace tutti::tcp
