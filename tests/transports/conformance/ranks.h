// Ranks on separate hosts, from their rings' point of view: each has a fabric and a network engine over some transport,
// in threads of one process or in processes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/all_gather.h"
#include "base/error.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network.h"
#include "transports/shm/fabric.h"

namespace tutti::testing {

// Long, because the processor may be emulated, the machine busy, and the program under a sanitizer.
inline Deadline Patience() { return Deadline::After(std::chrono::seconds(120)); }

// How ranks meet: one socket pair for each pair of ranks.
class Meeting {
 public:
  explicit Meeting(int ranks) : fds_(static_cast<std::size_t>(ranks), std::vector<int>(ranks, -1)) {
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        std::array<int, 2> ends{};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        fds_[i][j] = ends[0];
        fds_[j][i] = ends[1];
      }
    }
  }
  ~Meeting() {
    for (std::size_t rank = 0; rank < fds_.size(); ++rank) Leave(static_cast<int>(rank));
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int ranks() const { return static_cast<int>(fds_.size()); }
  // Closes the sockets of a rank in another process.
  void Leave(int rank) {
    for (int& fd : fds_[static_cast<std::size_t>(rank)]) {
      if (fd >= 0) close(std::exchange(fd, -1));
    }
  }

  AllGather AllGatherOf(int rank) const {
    return [fds = fds_[static_cast<std::size_t>(rank)]](std::span<const std::byte> mine) {
      const std::uint64_t size = mine.size();
      for (const int fd : fds) {
        if (fd < 0) continue;
        Write(fd, &size, sizeof size);
        Write(fd, mine.data(), mine.size());
      }
      std::vector<std::vector<std::byte>> all;
      for (const int fd : fds) {
        std::uint64_t their_size = size;
        if (fd >= 0) Read(fd, &their_size, sizeof their_size);
        auto& theirs = all.emplace_back(their_size);
        if (fd >= 0) {
          Read(fd, theirs.data(), theirs.size());
        } else {
          theirs.assign(mine.begin(), mine.end());
        }
      }
      return all;
    };
  }

 private:
  static void Write(int fd, const void* data, std::size_t bytes) {
    if (bytes > 0 && send(fd, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
      Throw(tuttiRemoteError, "the other is gone");
  }
  static void Read(int fd, void* data, std::size_t bytes) {
    if (bytes > 0 && recv(fd, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) {
      Throw(tuttiRemoteError, "the other is gone");
    }
  }

  std::vector<std::vector<int>> fds_;  // [rank][other]; -1: the rank itself
};

// Makes a rank's transport of the tested kind.
using Maker = std::function<std::unique_ptr<progress::NetworkTransport>(
    int rank, const std::vector<int>& peers, const auth::SecretKey& key, const AllGather& all_gather,
    progress::NetworkTransportEvents& events)>;

// For the connections that transports make besides their own, and for the TCP transport's.
inline Settings OnLoopback() {
  Settings settings;
  settings.socket_ifname = "=lo";
  settings.socket_family = "inet";
  return settings;
}

struct Rank {
  Rank(int self, const Meeting& meeting, const Maker& make, const auth::SecretKey& key, int channels)
      : rank(self),
        meet(meeting.AllGatherOf(self)),
        fabric(self, AllApart(meeting.ranks()), channels, OnLoopback(), meet, Patience()),
        engine(fabric, Others(), [&](progress::NetworkTransportEvents& events) {
          auto made = make(self, Others(), key, meet, events);
          transport = made.get();
          return made;
        }) {}

  static shm::Hosts AllApart(int ranks) {
    shm::Hosts hosts;
    for (int r = 0; r < ranks; ++r) {
      hosts.host_of.push_back(r);
      hosts.kernel_of.push_back(0);
    }
    return hosts;
  }
  std::vector<int> Others() const {
    std::vector<int> others;
    for (int r = 0; r < fabric.nranks(); ++r) {
      if (r != rank) others.push_back(r);
    }
    return others;
  }
  // For tests with two ranks.
  int peer() const { return 1 - rank; }
  // Why a peer was lost; "" if it was not lost, or left in order.
  std::string Lost(int other) {
    const bool left = fabric.control(other).state.load(std::memory_order_acquire) == ring::RankState::left;
    return left ? "" : engine.Lost(other).value_or("");
  }
  // Works until `done`; false: too long, or the peer was lost. When nothing moves, it sleeps, as a waiting rank does.
  bool Until(const std::function<bool()>& done) {
    const auto deadline = Patience();
    for (int idle = 0; !done();) {
      if (deadline.Passed()) {
        ADD_FAILURE() << "rank " << rank << " waits too long";
        return false;
      }
      for (const int other : Others()) {
        if (!Lost(other).empty()) return done();
      }
      idle = engine.Progress() ? 0 : idle + 1;
      if (idle < 100) continue;
      engine.Announce();
      engine.Sleep(std::chrono::milliseconds(100));
    }
    return true;
  }

  const int rank;
  AllGather meet;
  shm::Fabric fabric;
  progress::NetworkTransport* transport = nullptr;
  progress::NetworkEngine engine;
};

// Runs each rank in its own thread; an exception is a failure.
inline void RunRanks(const std::vector<Maker>& makers, int channels, const std::function<void(Rank&)>& run) {
  const Meeting meeting(static_cast<int>(makers.size()));
  const auto key = auth::SecretKey::Random();
  std::vector<std::thread> threads;
  for (int self = 0; self < meeting.ranks(); ++self) {
    threads.emplace_back([&, self] {
      try {
        Rank rank(self, meeting, makers[static_cast<std::size_t>(self)], key, channels);
        run(rank);
        rank.engine.Leave();
      } catch (const Error& error) {
        ADD_FAILURE() << "rank " << self << ": " << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace tutti::testing
