// Asks the kernel which user owns the other end of a TCP connection. Only the kernel knows whether that end is a socket of
// this machine: a process may bind any address of the machine, and any device, before it connects.
//
// Sources: the kernel's socket diagnostics (NETLINK_SOCK_DIAG), or /proc/net/tcp where a filter refuses them. Both show
// this thread's network namespace alone. A source counts only if it also knows this process's own end. A file that only
// the user can read would prove the same, but would have to be removed after `kill -9`; a second socket for each connection
// would have to be tied to it.
//
// Thread-safety: a function without state.
#pragma once

#include <sys/types.h>

#include "net/socket.h"

namespace tutti::net {

struct SocketOwner {
  enum class Found {
    owner,
    closed,  // this machine has the other end, but its process has closed it, or has not accepted it yet
    none,    // this machine has no such socket
    unknown  // no source answers
  };
  Found found = Found::unknown;
  uid_t user = 0;
};

// The owner of the socket whose ends are those of `ours`, exchanged; `peer` is the address that `ours` is connected to.
SocketOwner OwnerOfOtherEnd(const Socket& ours, const SocketAddress& peer);

}  // namespace tutti::net
