// Picks the connection to look at next without asking the system about all of them: asking is one more system call
// before the one that receives, a tenth of a small message's time (docs/notebook/performance/between_hosts.md). A line
// that has just received will receive again, and among those the one that has been quiet longest is likely to be next.
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
  // Looks in a row that find nothing until a line counts as cold: as long as a wait for data on its way.
  static constexpr int kPatience = 64;
  // A line also counts as cold when this many messages have arrived on others since its last.
  static constexpr std::uint64_t kMemory = 16;
  // With more warm lines, one call that asks about all pays.
  static constexpr std::size_t kMost = 4;
  // One in this many looks is at all lines, because others may have data, too.
  static constexpr int kRound = 4;

  // The line to look at now, by the number it was given; none: ask about all.
  std::optional<std::uint64_t> Next() {
    if (lines_.empty() || lines_.size() > kMost || ++looks_ % kRound == 0) return std::nullopt;
    return lines_.front().number;
  }
  // The line from Next() had nothing.
  void Missed() {
    if (++misses_ < kPatience) return;
    misses_ = 0;
    lines_.erase(lines_.begin());
  }
  // Something arrived on this line, which was looked at or reported by the system.
  void Received(std::uint64_t line) {
    misses_ = 0;
    ++received_;
    std::erase_if(lines_, [&](const Line& each) { return each.number == line || received_ - each.received > kMemory; });
    lines_.push_back({line, received_});
  }

 private:
  struct Line {
    std::uint64_t number;
    std::uint64_t received;  // when: counted in messages
  };

  std::vector<Line> lines_;  // quiet longest first
  std::uint64_t received_ = 0;
  unsigned looks_ = 0;
  int misses_ = 0;
};

}  // namespace tutti::tcp
