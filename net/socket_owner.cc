#include "net/socket_owner.h"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

namespace tutti::net {
namespace {

using Found = SocketOwner::Found;

// The addresses of a connection's two ends, as the socket of the first end has them.
struct Ends {
  SocketAddress mine, other;

  Ends Exchanged() const { return {other, mine}; }
};

// Known means that the kernel has a connection with these ends.
bool Known(SocketOwner owner) { return owner.found == Found::owner || owner.found == Found::closed; }

SocketOwner OwnerBy(unsigned state, unsigned long file, uid_t user) {
  // Where the kernel knows no such connection, it answers with the listener at that port. And whoever still calls has no
  // connection: any user can call with another machine's address.
  if (state == TCP_LISTEN || state == TCP_SYN_SENT) return {Found::none};
  // A socket that is closed, or not accepted yet, has no file, and then it has no owner.
  return state == TCP_ESTABLISHED && file != 0 ? SocketOwner{Found::owner, user} : SocketOwner{Found::closed};
}

class Diagnostics {
 public:
  Diagnostics() : netlink_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

  // A socket that is bound to a device is found only if the device is named.
  SocketOwner Ask(const Ends& ends) const {
    const auto plain = Ask(ends, ends.mine.scope);
    if (plain.found != Found::none) return plain;
    const std::unique_ptr<struct if_nameindex[], decltype(&if_freenameindex)> devices(::if_nameindex(),
                                                                                      &if_freenameindex);
    if (!devices) return {};
    for (std::size_t i = 0; devices[i].if_index != 0; ++i) {
      if (const auto bound = Ask(ends, devices[i].if_index); bound.found != Found::none) return bound;
    }
    return plain;
  }

 private:
  // Asks for the one socket with these ends.
  SocketOwner Ask(const Ends& ends, unsigned device) const {
    if (!netlink_) return {};
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
    id.idiag_if = device;
    id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (send(netlink_.fd(), &request, sizeof request, 0) != sizeof request) return {};

    alignas(nlmsghdr) std::array<std::byte, 4096> answer{};
    ssize_t got;
    do {
      got = recv(netlink_.fd(), answer.data(), answer.size(), 0);  // the kernel has answered inside send()
    } while (got < 0 && errno == EINTR);
    nlmsghdr header{};
    if (got < static_cast<ssize_t>(NLMSG_HDRLEN)) return {};
    std::memcpy(&header, answer.data(), sizeof header);
    if (header.nlmsg_type == NLMSG_ERROR) {
      nlmsgerr error{};
      std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
      return {error.error == -ENOENT ? Found::none : Found::unknown};
    }
    inet_diag_msg message{};
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || got < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof message)) {
      return {};
    }
    std::memcpy(&message, answer.data() + NLMSG_HDRLEN, sizeof message);
    return OwnerBy(message.idiag_state, message.idiag_inode, message.idiag_uid);
  }

  Socket netlink_;
};

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

SocketOwner ReadList(const char* path, const Ends& ends) {
  std::ifstream list(path);
  if (!list) return {};
  const auto mine = ProcText(ends.mine), other = ProcText(ends.other);
  std::string line;
  while (std::getline(list, line)) {
    char local[64], remote[64];
    unsigned state = 0, user = 0;
    unsigned long file = 0;
    if (std::sscanf(line.c_str(), "%*s %63s %63s %x %*s %*s %*s %u %*s %lu", local, remote, &state, &user, &file) != 5)
      continue;
    if (mine != local || other != remote) continue;
    if (const auto owner = OwnerBy(state, file, user); Known(owner)) return owner;
  }
  return {Found::none};
}

// An IPv4 connection may end in an IPv6 socket, which has a list of its own.
SocketAddress Mapped(const SocketAddress& address) {
  if (address.v6) return address;
  SocketAddress mapped{.v6 = true, .port = address.port};
  mapped.ip[10] = mapped.ip[11] = 0xff;
  std::copy_n(address.ip.begin(), 4, mapped.ip.begin() + 12);
  return mapped;
}

SocketOwner ReadLists(const Ends& ends) {
  // Not /proc/net, which is that of the process's first thread.
  const auto four = ends.mine.v6 ? SocketOwner{Found::none} : ReadList("/proc/thread-self/net/tcp", ends);
  if (Known(four)) return four;
  const auto six = ReadList("/proc/thread-self/net/tcp6", {Mapped(ends.mine), Mapped(ends.other)});
  return six.found == Found::unknown ? four : six;
}

// Whether the connection was reset: the kernel then keeps it in no list.
bool IsReset(const Socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

}  // namespace

SocketOwner OwnerOfOtherEnd(const Socket& ours, const SocketAddress& peer) {
  const auto here = FindLocalAddress(ours);
  if (!here) return {};
  const Ends theirs{peer, *here};
  // Where there are no diagnostics for TCP, the kernel answers as it does for a socket that does not exist. Ours does
  // exist, unless it was reset.
  const Diagnostics diagnostics;
  const auto told = diagnostics.Ask(theirs);
  if (Known(told)) return told;
  if (told.found == Found::none && Known(diagnostics.Ask(theirs.Exchanged()))) return told;
  if (IsReset(ours)) return {Found::closed};
  // The lists are long during a flood of strangers, so they are read only if needed.
  const auto listed = ReadLists(theirs);
  if (Known(listed)) return listed;
  if (listed.found == Found::none && Known(ReadLists(theirs.Exchanged()))) return listed;
  return {IsReset(ours) ? Found::closed : Found::unknown};
}

}  // namespace tutti::net
