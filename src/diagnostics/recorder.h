// The flight recorder: this rank's last operations, in shared memory that every peer can read - while they run, to see
// which rank called something else; after a failure, to print.
//
// Thread-safety: the thread that drives the communicator calls Begin, End and Completed; any thread may read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clocks/clock.h"
#include "src/plan/operation.h"
#include "transports/ring/control_block.h"

namespace tutti::diagnostics {

struct RecordedCall : ring::RecordedOperation {
  std::uint64_t index = 0;
  std::int64_t ended = 0;

  bool done() const { return ended != 0; }
  std::string Describe() const { return plan::DescribeCall(call, count); }
};

inline schedule::Collective CollectiveOf(const RecordedCall& call) {
  return static_cast<schedule::Collective>(call.call & 0xff);
}
inline bool IsMessage(const RecordedCall& call) { return schedule::IsMessage(CollectiveOf(call)); }
// All ranks make the call, in the same order.
inline bool IsCollective(const RecordedCall& call) {
  return !IsMessage(call) && !schedule::IsOneSided(CollectiveOf(call));
}

class Recorder {
 public:
  explicit Recorder(ring::ControlBlock& control) : control_(control) {}

  // Publishes that an operation begins; returns the record's index for End().
  std::uint64_t Begin(const ring::RecordedOperation& operation) {
    const auto index = next_++;
    ring::WriteRecord(control_, index, operation);
    return index;
  }
  // `now`: in ticks.
  void End(std::uint64_t index, std::int64_t now) {
    control_.records[index % ring::kRecords].ended.store(now, std::memory_order_relaxed);
  }

 private:
  ring::ControlBlock& control_;
  std::uint64_t next_ = 1;
};

// Records are numbered 1, 2, ...; a rank's last kRecords are kept.
inline std::uint64_t NewestRecord(const ring::ControlBlock& control) {
  return control.newest.load(std::memory_order_acquire);
}
// Nothing if the record is being written or no longer kept, or for 0, which numbers none.
std::optional<RecordedCall> ReadRecord(const ring::ControlBlock& control, std::uint64_t index);
// Complete records, oldest first. At most kRecords, whatever the block contains.
std::vector<RecordedCall> ReadRecords(const ring::ControlBlock& control);

// The newest record in a rank's block that `matches` accepts. Usually that is the first one read: a waiting rank asks
// this of every rank repeatedly.
template <typename Matches>
std::optional<RecordedCall> FindRecord(const ring::ControlBlock& control, Matches&& matches) {
  const auto newest = NewestRecord(control);
  const auto kept = std::min<std::uint64_t>(newest, ring::kRecords);
  for (std::uint64_t i = 0; i < kept; ++i) {
    const auto record = ReadRecord(control, newest - i);
    if (record && matches(*record)) return record;
  }
  return std::nullopt;
}

}  // namespace tutti::diagnostics
