// The collectives that this rank has begun, in order, and whether another rank has begun the same ones. Marks
// (control_block.h) represent both. Their digests are cumulative, so one equal mark proves all earlier calls equal.
//
// A rank compares a peer's mark with its own mark of the same number. If the peer is ahead, the rank keeps the peer's
// mark and compares it on reaching that number.
//
// Thread-safety: used by one thread at a time; peers read what Begin publishes.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "transports/ring/control_block.h"

namespace tutti::diagnostics {

class History {
 public:
  // Number of recent marks kept: a peer that is further behind cannot be compared yet.
  static constexpr std::size_t kKept = 256;

  // `blocks`: the ranks' control blocks, by rank. They outlive this.
  History(std::vector<ring::ControlBlock*> blocks, int own)
      : blocks_(std::move(blocks)), own_(*blocks_[static_cast<std::size_t>(own)]), peers_(blocks_.size()) {}

  // A collective begins. REQUIRES: its record is written, so that a peer that sees the mark finds the record.
  void Begin(std::uint64_t sequence, std::uint64_t digest) {
    newest_ = ring::MarkOf(sequence, digest);
    kept_[sequence % kKept] = newest_;
    own_.mark.store(newest_, std::memory_order_release);
  }

  // Whether `rank` has begun other collectives than this rank, as far as both have come.
  bool Contradicts(int rank) {
    auto& [ahead, compared] = peers_[static_cast<std::size_t>(rank)];
    const auto theirs = blocks_[static_cast<std::size_t>(rank)]->mark.load(std::memory_order_acquire);
    if (ahead != 0 && Reached(ahead)) {
      if (Differs(ahead)) return true;
      compared = ring::MarkedSequence(ahead);
      ahead = 0;
    }
    if (theirs == 0) return false;  // it has begun none
    if (Reached(theirs)) {
      compared = ring::MarkedSequence(theirs);
      return Differs(theirs);
    }
    if (ahead == 0) ahead = theirs;
    return false;
  }

  // Whether `rank` has begun more collectives than this rank, as of the last comparison.
  bool Ahead(int rank) const { return peers_[static_cast<std::size_t>(rank)].ahead != 0; }
  // Number of collectives this rank has begun, modulo 2^32, and how many were compared with that rank's.
  std::uint32_t newest() const { return ring::MarkedSequence(newest_); }
  std::uint32_t compared(int rank) const { return peers_[static_cast<std::size_t>(rank)].compared; }
  // The last marks, oldest first.
  std::vector<std::uint64_t> Marks(std::size_t most) const;

 private:
  struct Peer {
    std::uint64_t ahead = 0;  // a mark that this rank has not reached yet; 0: none
    std::uint32_t compared = 0;
  };

  // Counts wrap at 2^32; ranks are never so far apart.
  bool Reached(std::uint64_t mark) const {
    return static_cast<std::int32_t>(ring::MarkedSequence(newest_) - ring::MarkedSequence(mark)) >= 0;
  }
  bool Differs(std::uint64_t mark) const {
    const auto own = kept_[ring::MarkedSequence(mark) % kKept];
    return ring::MarkedSequence(own) == ring::MarkedSequence(mark) && own != mark;
  }

  std::vector<ring::ControlBlock*> blocks_;
  ring::ControlBlock& own_;
  std::uint64_t newest_ = 0;
  std::array<std::uint64_t, kKept> kept_{};
  std::vector<Peer> peers_;  // by rank
};

}  // namespace tutti::diagnostics
