// A queue of small events in virtual time, earliest first. Time counts whole picoseconds, so that simultaneous events
// share one instant and a simulation gives the same result everywhere.
//
// Thread-safety: none; one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tutti::simulator {

using Time = std::int64_t;  // ps; a hundred days fit

inline constexpr double kPicosecondsPerMicrosecond = 1e6;
constexpr Time FromMicroseconds(double us) { return static_cast<Time>(us * kPicosecondsPerMicrosecond + 0.5); }
constexpr double ToMicroseconds(Time time) { return static_cast<double>(time) / kPicosecondsPerMicrosecond; }

template <typename Kind>
class EventQueue {
 public:
  struct Event {
    Time time;
    std::uint32_t index;  // of the object it happens to
    std::uint32_t version : 29;
    std::uint32_t kind : 3;
    Kind What() const { return static_cast<Kind>(kind); }
  };
  static constexpr std::uint32_t kVersions = 1u << 29;  // versions are counted modulo this

  bool empty() const { return heap_.empty(); }
  Time Next() const { return heap_.front().time; }
  void Push(Time time, Kind kind, std::uint32_t index, std::uint32_t version = 0) {
    heap_.push_back({time, index, version % kVersions, static_cast<std::uint32_t>(kind)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  Event Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool Later(const Event& a, const Event& b) { return a.time > b.time; }

  std::vector<Event> heap_;
};

}  // namespace tutti::simulator
