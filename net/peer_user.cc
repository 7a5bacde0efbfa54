#include "net/peer_user.h"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/settings.h"

namespace tutti::net {
namespace {

// The addresses of a connection's two ends, as the socket of the first end has them.
struct Ends {
  SocketAddress mine, other;
};

// Turns an IPv4 address that is mapped into IPv6 into IPv4.
SocketAddress Plain(SocketAddress address) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (!address.v6 || !std::equal(kMapped.begin(), kMapped.end(), address.ip.begin())) return address;
  SocketAddress plain{.port = address.port};
  std::copy_n(address.ip.begin() + kMapped.size(), 4, plain.ip.begin());
  return plain;
}

struct Found {
  // closed: there is such a socket, but its end is closed, or not accepted yet, and has no owner; none: there is none
  enum class How { found, closed, none, unknown } how = How::unknown;
  uid_t user = 0;
};

// Asks the kernel for the one socket with these ends.
Found AskDiagnostics(const Ends& ends) {
  const Socket netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return {};
  struct {
    nlmsghdr header;
    inet_diag_req_v2 body;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = ends.mine.v6 ? AF_INET6 : AF_INET;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  auto& id = request.body.id;
  id.idiag_sport = htons(ends.mine.port);
  id.idiag_dport = htons(ends.other.port);
  std::memcpy(id.idiag_src, ends.mine.ip.data(), sizeof id.idiag_src);
  std::memcpy(id.idiag_dst, ends.other.ip.data(), sizeof id.idiag_dst);
  id.idiag_if = ends.mine.scope;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(netlink.fd(), &request, sizeof request, 0) != sizeof request) return {};

  alignas(nlmsghdr) std::array<std::byte, 4096> answer{};
  ssize_t got;
  do {
    got = recv(netlink.fd(), answer.data(), answer.size(), 0);  // the kernel has answered inside send()
  } while (got < 0 && errno == EINTR);
  nlmsghdr header{};
  if (got < static_cast<ssize_t>(NLMSG_HDRLEN)) return {};
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
    return {error.error == -ENOENT ? Found::How::none : Found::How::unknown};
  }
  inet_diag_msg message{};
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || got < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof message)) return {};
  std::memcpy(&message, answer.data() + NLMSG_HDRLEN, sizeof message);
  // A socket that is closed, or not accepted yet, has no file, and then it has no owner.
  if (message.idiag_state != TCP_ESTABLISHED || message.idiag_inode == 0) return {Found::How::closed};
  return {Found::How::found, message.idiag_uid};
}

// An address as /proc/net/tcp writes it: words of 32 bits in the machine's order.
std::string ProcText(const SocketAddress& address) {
  std::string text;
  for (std::size_t at = 0; at < (address.v6 ? 16U : 4U); at += 4) {
    std::uint32_t word;
    std::memcpy(&word, address.ip.data() + at, sizeof word);
    text += fmt::format("{:08X}", word);
  }
  return fmt::format("{}:{:04X}", text, address.port);
}

// Likewise from a list of all connections, where there are no diagnostics.
Found ReadProc(const char* path, const Ends& ends) {
  std::ifstream list(path);
  if (!list) return {};
  const auto mine = ProcText(ends.mine), other = ProcText(ends.other);
  std::string line;
  while (std::getline(list, line)) {
    char local[64], remote[64];
    unsigned state = 0, user = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%*s %63s %63s %x %*s %*s %*s %u %*s %lu", local, remote, &state, &user, &inode) != 5)
      continue;
    if (mine != local || other != remote) continue;
    return state == TCP_ESTABLISHED && inode != 0 ? Found{Found::How::found, user} : Found{Found::How::closed};
  }
  return {Found::How::none};
}

// An IPv4 connection may end in an IPv6 socket, which has a list of its own.
SocketAddress Mapped(const SocketAddress& address) {
  if (address.v6) return address;
  SocketAddress mapped{.v6 = true, .port = address.port};
  mapped.ip[10] = mapped.ip[11] = 0xff;
  std::copy_n(address.ip.begin(), 4, mapped.ip.begin() + 12);
  return mapped;
}

// Whether the connection was reset: the kernel then keeps it in no list.
bool IsReset(const Socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

// `ours` is this process's end of the connection.
Found OwnerOf(const Ends& theirs, const Socket& ours) {
  auto found = AskDiagnostics(theirs);
  if (found.how == Found::How::found || found.how == Found::How::closed) return found;
  // Where there are no diagnostics for TCP, the kernel answers as it does for a socket that does not exist. Ours does
  // exist, unless it was reset. The lists below are long during a flood of strangers, so they are read only if needed.
  const bool told = found.how == Found::How::none;
  const auto own = AskDiagnostics({theirs.other, theirs.mine}).how;
  if (told && (own == Found::How::found || own == Found::How::closed)) return found;
  if (IsReset(ours)) return {Found::How::none};
  found = theirs.mine.v6 ? Found{Found::How::none} : ReadProc("/proc/net/tcp", theirs);
  if (found.how == Found::How::found) return found;
  const auto six = ReadProc("/proc/net/tcp6", {Mapped(theirs.mine), Mapped(theirs.other)});
  return six.how == Found::How::unknown ? found : six;
}

PeerUser Refuse(std::string why) { return {PeerUser::Verdict::refused, std::move(why)}; }

PeerUser Judge(uid_t user) {
  const auto own = geteuid();
  if (user == own) return {};
  return Refuse(
      fmt::format("it belongs to user {} of this machine, but this process to user {}; set TUTTI_ALLOW_OTHER_USERS=1 "
                  "to allow ranks of several users",
                  user, own));
}

}  // namespace

PeerUser UserOfUnixPeer(int socket) {
  if (GlobalSettings().allow_other_users) return {};
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Refuse("the kernel does not report which user it belongs to");
  }
  return Judge(peer.uid);
}

PeerUser UserOfTcpPeer(const Socket& socket) {
  if (GlobalSettings().allow_other_users) return {};
  const PeerUser gone{PeerUser::Verdict::gone, "it has closed the connection"};
  const auto peer = PeerAddress(socket);
  if (!peer) return gone;
  const Ends theirs{Plain(*peer), Plain(LocalAddress(socket))};
  const bool loopback = theirs.mine.IsLoopback();
  if (!loopback && (theirs.mine.ip != theirs.other.ip || theirs.mine.v6 != theirs.other.v6)) return {};
  const auto owner = OwnerOf(theirs, socket);
  if (owner.how == Found::How::found) return Judge(owner.user);
  // At a non-loopback address of this machine, a router may have turned a connection round, so that the other end has
  // another address. There the job has a secret.
  if (!loopback) return {};
  if (owner.how != Found::How::unknown) return gone;
  return Refuse(
      "the kernel does not report which user it belongs to (neither NETLINK_SOCK_DIAG nor /proc/net/tcp is available); "
      "TUTTI_ALLOW_OTHER_USERS=1 skips this check");
}

}  // namespace tutti::net
