// The order of events: vector clocks, and memory that detects accesses without an order.
//
// Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978); Flanagan and Freund, "FastTrack:
// Efficient and Precise Dynamic Race Detection" (2009).
//
// Thread-safety: value types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::verifier {

// Per actor, the number of its events before now.
using Clock = std::vector<std::uint32_t>;

inline void Merge(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

// One event of one actor, and what it was, for messages.
struct Event {
  int actor = -1;  // -1: none
  std::uint32_t time = 0;
  int operation = 0;
  int chunk = 0;
  int step = -1;  // -1: the caller, between operations
};

inline bool IsBefore(const Event& event, const Clock& now) {
  return event.actor == -1 || event.time <= now[event.actor];
}

// One chunk of a block in memory: its value, and the accesses that a later one must come after.
class Cell {
 public:
  int value() const { return value_; }
  const Event& last_write() const { return write_; }

  // Both return an earlier access that this one is not ordered after.
  std::optional<Event> Read(const Event& reader, const Clock& now) {
    if (!IsBefore(write_, now)) return write_;
    const auto same =
        std::find_if(reads_.begin(), reads_.end(), [&](auto& read) { return read.actor == reader.actor; });
    if (same == reads_.end()) {
      reads_.push_back(reader);
    } else {
      *same = reader;
    }
    return std::nullopt;
  }
  std::optional<Event> Write(const Event& writer, const Clock& now, int value) {
    if (!IsBefore(write_, now)) return write_;
    for (const Event& read : reads_) {
      if (!IsBefore(read, now)) return read;
    }
    write_ = writer;
    reads_.clear();
    value_ = value;
    return std::nullopt;
  }

 private:
  int value_ = -1;
  Event write_;
  std::vector<Event> reads_;
};

}  // namespace tutti::verifier
