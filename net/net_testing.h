// For tests of meeting: ranks as threads, and settings that keep to loopback.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/settings/settings.h"
#include "net/interfaces.h"
#include "testing/free_port.h"

namespace tutti::testing {

// Long enough for a loaded machine under a sanitizer; a test that reaches it has failed.
inline Deadline Ample() { return Deadline::After(std::chrono::seconds(60)); }

inline Settings OnLoopback(bool v6 = false) {
  Settings settings;
  settings.socket_ifname = "=lo";
  settings.socket_family = v6 ? "inet6" : "inet";
  return settings;
}

inline bool HasV6Loopback() { return static_cast<bool>(net::Listen(net::SocketAddress::Loopback(true, 0)).socket); }

// Runs fn(rank) in a thread for each rank; returns what each threw, by rank.
inline std::vector<std::optional<Error>> RunRanks(const std::vector<int>& ranks, const std::function<void(int)>& fn) {
  std::vector<std::optional<Error>> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        fn(ranks[i]);
      } catch (const Error& error) {
        errors[i] = error;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

inline std::vector<int> AllRanks(int nranks) {
  std::vector<int> ranks;
  for (int rank = 0; rank < nranks; ++rank) ranks.push_back(rank);
  return ranks;
}

inline void ExpectNoErrors(const std::vector<std::optional<Error>>& errors) {
  for (std::size_t i = 0; i < errors.size(); ++i) {
    EXPECT_FALSE(errors[i].has_value()) << "rank " << i << ": " << errors[i]->what();
  }
}

inline void ExpectError(const std::optional<Error>& error, tuttiResult_t code, const std::vector<std::string>& words) {
  ASSERT_TRUE(error.has_value()) << "no error, expected: " << ResultPhrase(code);
  EXPECT_EQ(error->code(), code) << error->what();
  for (const auto& word : words) {
    EXPECT_NE(std::string(error->what()).find(word), std::string::npos)
        << '"' << word << "\" not in: " << error->what();
  }
}

// Connections to a port that send nothing, for as long as this lives.
class IdleCalls {
 public:
  IdleCalls(const net::SocketAddress& address, int count) {
    for (int i = 0; i < count; ++i) calls_.push_back(net::StartConnect(address).socket);
  }

 private:
  std::vector<net::Socket> calls_;
};

struct SocketPair {
  net::Socket client;
  net::Socket server;
};

// Two ends of a connection to a port of `address`'s host.
inline SocketPair ConnectedAt(const net::SocketAddress& address) {
  const auto listener = net::Listen(address).socket;
  auto client = net::StartConnect(net::LocalAddress(listener)).socket;
  pollfd fd{listener.fd(), POLLIN, 0};
  EXPECT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
  auto accepted = net::Accept(listener);
  EXPECT_EQ(accepted.status, net::AcceptStatus::accepted);
  fd = {client.fd(), POLLOUT, 0};
  EXPECT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
  EXPECT_EQ(net::ConnectError(client), 0);
  return {std::move(client), std::move(accepted.socket)};
}

// A blob whose length and bytes depend on the rank.
inline std::vector<std::byte> BlobOf(int rank, std::size_t size) {
  std::vector<std::byte> blob(size);
  for (std::size_t i = 0; i < size; ++i) blob[i] = static_cast<std::byte>(static_cast<std::size_t>(rank) * 31 + i * 7);
  return blob;
}

}  // namespace tutti::testing
