// Drops a rank process's privileges, to run it as users do. For forked test processes, because nothing can be regained.
#pragma once

#include <vector>

namespace tutti::testing {

inline constexpr unsigned kNobody = 65534;

bool IsRoot();
// Continues as another user, without capabilities. REQUIRES: IsRoot().
void BecomeNobody();
// Continues as an ordinary user with the usual limits: 1,024 descriptors, 64 KiB of locked memory. A process that is
// not root's keeps its user.
void BecomeOrdinaryUser();
// From now on these system calls fail with EPERM, as under a container's filter.
void Forbid(const std::vector<long>& system_calls);
// Likewise for sockets of a family and protocol.
void ForbidSockets(int family, int protocol);

}  // namespace tutti::testing
