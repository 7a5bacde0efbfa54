#include "src/recorder.h"

#include <algorithm>

namespace tutti {

std::uint64_t Recorder::Begin(const Operation& operation, std::uint64_t packed, std::uint64_t signature,
                              std::uint64_t sequence, std::int64_t started) {
  const auto index = next_++;
  auto& record = control_.records[index % kRecords];
  // A sequence lock. Each field is released and acquired, so that a reader that sees one of the new fields finds the
  // old index gone when it looks at it again. (Fences would do the same, but ThreadSanitizer does not know them.)
  constexpr auto release = std::memory_order_release;
  record.index.store(0, std::memory_order_relaxed);
  record.sequence.store(sequence, release);
  record.signature.store(signature, release);
  record.call.store(packed, release);
  record.count.store(operation.count, release);
  record.started.store(started, release);
  record.done.store(0, release);
  record.index.store(index, release);
  return index;
}

void Recorder::End(std::uint64_t index) { control_.records[index % kRecords].done.store(1, std::memory_order_relaxed); }

std::vector<RecordedCall> ReadRecords(const ControlBlock& control) {
  std::vector<RecordedCall> whole;
  constexpr auto acquire = std::memory_order_acquire;
  for (const auto& record : control.records) {
    RecordedCall copy;
    copy.index = record.index.load(acquire);
    if (copy.index == 0) continue;
    copy.sequence = record.sequence.load(acquire);
    copy.signature = record.signature.load(acquire);
    copy.call = record.call.load(acquire);
    copy.count = record.count.load(acquire);
    copy.started = record.started.load(acquire);
    copy.done = record.done.load(acquire) != 0;
    if (record.index.load(acquire) == copy.index) whole.push_back(copy);
  }
  std::sort(whole.begin(), whole.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return whole;
}

}  // namespace tutti
