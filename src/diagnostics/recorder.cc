#include "src/diagnostics/recorder.h"

#include <algorithm>
#include <tuple>

namespace tutti::diagnostics {

std::optional<RecordedCall> ReadRecord(const ring::ControlBlock& control, std::uint64_t index) {
  const auto& record = control.records[index % ring::kRecords];
  const auto whole = ring::ReadWhole(record.index, index, ring::RecordWords(record));
  if (!whole) return std::nullopt;
  RecordedCall call;
  call.index = index;
  std::tie(call.sequence, call.signature, call.call, call.count, call.started, call.ended, call.origin) = *whole;
  return call;
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
