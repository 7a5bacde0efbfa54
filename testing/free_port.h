// Ports for tests that open one more than once.
//
// Thread-safety: any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace tutti::testing {

// A port of loopback that was free a moment ago. It lies below Linux's ephemeral ports (32768 on), so that no test that
// listens at an arbitrary port takes it. Processes start at different ports.
inline std::uint16_t FreePort(bool v6 = false) {
  constexpr unsigned kFirst = 20'000, kPorts = 12'000, kApart = 37;
  static std::atomic<unsigned> next{static_cast<unsigned>(getpid()) * kApart};
  for (;;) {
    const auto port = static_cast<std::uint16_t>(kFirst + next++ % kPorts);
    const int socket = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in v4_address{AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {}};
    sockaddr_in6 v6_address{AF_INET6, htons(port), 0, IN6ADDR_LOOPBACK_INIT, 0};
    const bool free = (v6 ? bind(socket, reinterpret_cast<sockaddr*>(&v6_address), sizeof v6_address)
                          : bind(socket, reinterpret_cast<sockaddr*>(&v4_address), sizeof v4_address)) == 0;
    close(socket);
    if (free) return port;
  }
}

}  // namespace tutti::testing
