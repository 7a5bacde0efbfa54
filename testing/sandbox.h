// Takes rights from a rank's process, to run it as users do. For forked processes of a test; nothing can be taken back.
#pragma once

#include <vector>

namespace tutti::testing {

inline constexpr unsigned kNobody = 65534;

bool IsRoot();
// This process goes on as another user, without capabilities. REQUIRES: IsRoot().
void BecomeNobody();
// ... as an ordinary user with the usual limits: 1,024 descriptors, 64 KiB of locked memory. If the process is not
// root's, its user stays.
void BecomeOrdinaryUser();
// From now on these system calls fail with EPERM, as under a container's filter.
void Forbid(const std::vector<long>& system_calls);
// Likewise for sockets of a family and protocol.
void ForbidSockets(int family, int protocol);

}  // namespace tutti::testing
