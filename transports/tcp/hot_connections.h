// Picks the connection to look at next without asking the system about all of them: asking is one more system call
// before the one that receives, a tenth of a small message's time (docs/notebook/performance/between_hosts.md). A
// connection that has just received will receive again, and among those the one that has been quiet longest is likely to
// be next.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::tcp {

class HotConnections {
 public:
  // Looks in a row that find nothing until a connection counts as cold: as long as a wait for data on its way.
  static constexpr int kPatience = 64;
  // A connection also counts as cold when this many messages have arrived on others since its last.
  static constexpr std::uint64_t kMemory = 16;
  // With more hot connections, one call that asks about all pays.
  static constexpr std::size_t kMost = 4;
  // One in this many looks is at all connections, because others may have data, too.
  static constexpr int kRound = 4;

  // The connection to look at now, by the number it was given; none: ask about all.
  std::optional<std::uint64_t> Next() {
    if (connections_.empty() || connections_.size() > kMost || ++looks_ % kRound == 0) return std::nullopt;
    return connections_.front().number;
  }
  // The connection from Next() had nothing.
  void Missed() {
    if (++misses_ < kPatience) return;
    misses_ = 0;
    connections_.erase(connections_.begin());
  }
  // Something arrived on this connection, which was looked at or reported by the system.
  void Received(std::uint64_t connection) {
    misses_ = 0;
    ++received_;
    std::erase_if(connections_, [&](const Connection& each) {
      return each.number == connection || received_ - each.received > kMemory;
    });
    connections_.push_back({connection, received_});
  }

 private:
  struct Connection {
    std::uint64_t number;
    std::uint64_t received;  // when: counted in messages
  };

  std::vector<Connection> connections_;  // quiet longest first
  std::uint64_t received_ = 0;
  unsigned looks_ = 0;
  int misses_ = 0;
};

}  // namespace tutti::tcp
