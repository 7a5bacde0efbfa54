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

TcpConnection* Shortest(const std::vector<std::unique_ptr<TcpConnection>>& connections, bool by_way) {
  if (connections.size() < 2) return connections.empty() ? nullptr : connections.front().get();
  const auto length = [by_way](const auto& connection) {
    return std::pair(by_way ? connection->stream.bytes_on_the_way() : connection->stream.bytes_queued(),
                     connection->turn);
  };
  return std::ranges::min_element(connections, {}, length)->get();
}

}  // namespace tutti::tcp
