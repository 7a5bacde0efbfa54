// A rank's public state, at the start of its shared segment, where every peer on the host can read it - even after the
// process has died. Only `record` and `completed` are on the data path (own cache lines, written by the owner only).
//
// Thread-safety: all fields are atomics or are written before the atomic that announces them (fault: before `state`).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <tuple>

#include "base/error.h"
#include "transports/ring/call_site.h"
#include "transports/ring/sequence_lock.h"
#include "transports/ring/slot.h"

namespace tutti::ring {

// A rank that has stopped has aborted or revoked its communicator: only what waits for it fails.
enum class RankState : std::uint32_t { starting, alive, left, failed, stopped };

// One operation in the flight recorder. Its index locks the rest (sequence_lock.h).
struct alignas(kCacheLine) OperationRecord {
  std::atomic<std::uint64_t> index;     // 1, 2, ... ; 0: being written or never used
  std::atomic<std::uint64_t> sequence;  // of the collective in its communicator, or of the message in its pair
  std::atomic<std::uint64_t> signature;
  std::atomic<std::uint64_t> call;       // PackCall()
  std::atomic<std::uint64_t> count;      // elements
  std::atomic<std::int64_t> started;     // ticks (base/clocks/clock.h)
  std::atomic<std::int64_t> ended;       // ticks; 0: it has not
  std::atomic<std::uint64_t> origin;     // PackOrigin()
};
static_assert(sizeof(OperationRecord) == kCacheLine);

// What a record's index locks.
auto RecordWords(auto& record) {
  return std::tie(record.sequence, record.signature, record.call, record.count, record.started, record.ended,
                  record.origin);
}

// Which tuttiAlgorithm_t runs the operation, and the number of the site where it was called (call_site.h; 0: unknown).
constexpr int kSiteShift = 32;
constexpr std::uint64_t PackOrigin(std::uint32_t algorithm, std::uint32_t site) {
  return std::uint64_t{site} << kSiteShift | algorithm;
}
constexpr std::uint32_t AlgorithmIn(std::uint64_t origin) { return static_cast<std::uint32_t>(origin); }
constexpr std::uint32_t SiteIn(std::uint64_t origin) { return static_cast<std::uint32_t>(origin >> kSiteShift); }

// The content of an OperationRecord.
struct RecordedOperation {
  std::uint64_t sequence = 0;
  std::uint64_t signature = 0;
  std::uint64_t call = 0;
  std::uint64_t count = 0;
  std::int64_t started = 0;
  std::uint64_t origin = 0;  // PackOrigin()

  std::uint32_t algorithm() const { return AlgorithmIn(origin); }
  std::uint32_t site() const { return SiteIn(origin); }
};

// Twice what a rank may run ahead of one that takes nothing from it, so that mismatching calls are still on record.
inline constexpr std::uint32_t kRecords = 128;
static_assert(kCallSites > kRecords);
inline constexpr std::size_t kFaultText = 1536;

// A rank's collectives in one word: how many it has begun (modulo 2^32), and a digest of them.
constexpr std::uint64_t MarkOf(std::uint64_t sequence, std::uint64_t digest) {
  return SlotFlag(static_cast<std::uint32_t>(sequence), OperationTag(digest));
}
constexpr std::uint32_t MarkedSequence(std::uint64_t mark) { return FlagNumber(mark); }

// Encodes that operation number `record` waits for `rank`, among others.
constexpr std::uint64_t PackAwaited(std::uint64_t record, int rank) {
  return record << 32 | (static_cast<std::uint32_t>(rank) + 1);
}
// The rank in `awaits`; -1: none, or of another operation. A peer may have written anything.
constexpr int AwaitedIn(std::uint64_t awaits, std::uint64_t record) {
  return awaits >> 32 == (record & 0xffffffff) ? static_cast<int>((awaits & 0xffffffff) - 1) : -1;
}

// Windows of a communicator at the same time.
inline constexpr std::size_t kMostWindows = 1024;
inline constexpr std::size_t kWindowWordBits = 64;
inline constexpr std::size_t kWindowWords = kMostWindows / kWindowWordBits;

struct ControlBlock {
  // Rung by the thread that lets this rank go on, if `sleeping` is set.
  alignas(kCacheLine) std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> sleeping;
  std::atomic<std::uint32_t> hears_barriers;  // 1: this process executes the barriers that sleepers ask for
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers;   // rank 0's block only: how many ranks are asleep
  alignas(kCacheLine) std::atomic<std::uint64_t> completed;  // last collective that needs nothing more from this rank
  std::atomic<std::uint64_t> started;                        // last collective begun
  std::atomic<std::uint64_t> newest;                         // index of the last record
  std::atomic<std::uint64_t> mark;                           // MarkOf the last collective begun; 0: none
  std::atomic<std::uint32_t> several;                        // this rank's operations may run concurrently
  std::atomic<std::uint32_t> failures;                       // first local rank's block only: failed local ranks
  std::atomic<std::uint64_t> awaits;                         // PackAwaited(), as of this rank's last check
  alignas(kCacheLine) std::atomic<RankState> state;
  std::atomic<std::uint32_t> fault_code;  // tuttiResult_t
  std::array<char, kFaultText> fault_text;
  std::array<OperationRecord, kRecords> records;
  std::array<std::atomic<std::uint64_t>, kWindowWords> windows;  // by number: which this rank has registered
  CallSiteTable sites;
};
static_assert(std::atomic<RankState>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

// Publishes record number `index` as begun. One writer at a time.
inline void WriteRecord(ControlBlock& control, std::uint64_t index, const RecordedOperation& operation) {
  auto& record = control.records[index % kRecords];
  constexpr std::int64_t kNotEnded = 0;
  WriteWhole(record.index, index, RecordWords(record), operation.sequence, operation.signature, operation.call,
             operation.count, operation.started, kNotEnded, operation.origin);
  control.newest.store(index, std::memory_order_release);
}

// The failure of a rank in RankState::failed or stopped. Other processes may have written anything there: a code that is no
// failure's becomes tuttiRemoteError, the text is read to its end or the block's, and characters that a terminal would
// obey are escaped.
Error ReadFailure(const ControlBlock& control);

}  // namespace tutti::ring
