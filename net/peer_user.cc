#include "net/peer_user.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/settings/settings.h"
#include "net/socket_owner.h"

namespace tutti::net {
namespace {

PeerUser Judge(uid_t user) {
  const auto own = geteuid();
  if (user == own) return {};
  return {PeerUser::Verdict::refused,
          fmt::format("it belongs to user {} of this machine, but this process to user {}; set "
                      "TUTTI_ALLOW_OTHER_USERS=1 to allow ranks of several users",
                      user, own)};
}

}  // namespace

PeerUser UserOfUnixPeer(int socket) {
  if (GlobalSettings().allow_other_users) return {};
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return {PeerUser::Verdict::unknown, "the kernel does not report which user it belongs to"};
  }
  return Judge(peer.uid);
}

PeerUser UserOfTcpPeer(const Socket& socket) {
  if (GlobalSettings().allow_other_users) return {};
  const PeerUser gone{PeerUser::Verdict::gone, "it has closed the connection"};
  const auto peer = PeerAddress(socket);
  if (!peer) return gone;
  const auto owner = OwnerOfOtherEnd(socket, *peer);
  switch (owner.found) {
    case SocketOwner::Found::owner: return Judge(owner.user);
    case SocketOwner::Found::closed: return gone;
    case SocketOwner::Found::none: {
      const auto here = FindLocalAddress(socket);
      if (!here) break;
      // The peer is another machine, or a router has turned the connection round, so that its other end has another
      // address. Neither has an end on loopback.
      return peer->IsLoopback() || here->IsLoopback() ? gone : PeerUser{};
    }
    case SocketOwner::Found::unknown: break;
  }
  return {PeerUser::Verdict::unknown,
          "the kernel does not report which user it belongs to (neither NETLINK_SOCK_DIAG nor /proc/net/tcp answers); "
          "where they never do, TUTTI_ALLOW_OTHER_USERS=1 skips this check"};
}

}  // namespace tutti::net
