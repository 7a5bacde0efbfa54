#include "src/recorder.h"

#include <algorithm>

namespace tutti {

std::uint64_t Recorder::Begin(const Operation& operation, std::uint64_t packed, std::uint64_t signature,
                              std::uint64_t sequence, std::int64_t started) {
  const auto index = next_++;
  auto& record = control_.records[index % kRecords];
  constexpr auto relaxed = std::memory_order_relaxed;
  record.index.store(0, relaxed);
  // A reader that sees one of the new fields must find the old index gone (a sequence lock, writer's side).
  std::atomic_thread_fence(std::memory_order_release);
  record.sequence.store(sequence, relaxed);
  record.signature.store(signature, relaxed);
  record.call.store(packed, relaxed);
  record.count.store(operation.count, relaxed);
  record.started.store(started, relaxed);
  record.finished.store(0, relaxed);
  record.index.store(index, std::memory_order_release);
  return index;
}

void Recorder::End(std::uint64_t index, std::int64_t finished) {
  control_.records[index % kRecords].finished.store(finished, std::memory_order_relaxed);
}

std::vector<RecordedCall> ReadRecords(const ControlBlock& control) {
  std::vector<RecordedCall> whole;
  constexpr auto relaxed = std::memory_order_relaxed;
  for (const auto& record : control.records) {
    RecordedCall copy;
    copy.index = record.index.load(std::memory_order_acquire);
    if (copy.index == 0) continue;
    copy.sequence = record.sequence.load(relaxed);
    copy.signature = record.signature.load(relaxed);
    copy.call = record.call.load(relaxed);
    copy.count = record.count.load(relaxed);
    copy.started = record.started.load(relaxed);
    copy.finished = record.finished.load(relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);  // the fields before the index, once more
    if (record.index.load(relaxed) == copy.index) whole.push_back(copy);
  }
  std::sort(whole.begin(), whole.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return whole;
}

}  // namespace tutti
