#include "src/diagnostics/recorder.h"

#include <algorithm>

namespace tutti::diagnostics {

std::optional<RecordedCall> ReadRecord(const ring::ControlBlock& control, std::uint64_t index) {
  constexpr auto acquire = std::memory_order_acquire;
  const auto& record = control.records[index % ring::kRecords];
  RecordedCall copy;
  copy.index = record.index.load(acquire);
  if (index == 0 || copy.index != index) return std::nullopt;
  copy.sequence = record.sequence.load(acquire);
  copy.signature = record.signature.load(acquire);
  copy.call = record.call.load(acquire);
  copy.count = record.count.load(acquire);
  copy.started = record.started.load(acquire);
  copy.ended = record.ended.load(acquire);
  copy.origin = record.origin.load(acquire);
  return record.index.load(acquire) == index ? std::optional(copy) : std::nullopt;
}

std::vector<RecordedCall> ReadRecords(const ring::ControlBlock& control) {
  std::vector<RecordedCall> whole;
  const auto newest = NewestRecord(control);
  // Counts instead of comparing: another process may have written the largest possible number.
  const auto kept = std::min<std::uint64_t>(newest, ring::kRecords);
  for (std::uint64_t i = 0; i < kept; ++i) {
    if (const auto record = ReadRecord(control, newest - kept + 1 + i)) whole.push_back(*record);
  }
  return whole;
}

}  // namespace tutti::diagnostics
