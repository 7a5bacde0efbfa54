// Where everything lies in a rank's shared segment. A pure function of what all ranks know, so no offset is ever sent.
//
//   [ control block | heads | signals | line rings | inline rings | bulk pool ]
//
// A rank owns (fills) the rings in its own segment: one per channel and peer, and one post ring per channel. Memory
// that no plan uses is never touched, so it costs nothing.
#pragma once

#include <cstddef>

#include "transports/ring/control_block.h"
#include "transports/ring/slot.h"

namespace tutti::ring {

// Every rank's bulk slots together, at any number of ranks and channels (the design's bound).
inline constexpr std::size_t kBulkPoolBytes = std::size_t{64} << 20;
inline constexpr std::uint32_t kBulkDepth = 4;
// Past this a slot gains nothing: it no longer fits a core's cache.
inline constexpr std::size_t kMaxBulkCapacity = std::size_t{1} << 20;

// Signals of one-sided operations, from one rank to another.
inline constexpr std::size_t kSignals = std::size_t{TUTTI_SIGNAL_CONTEXTS} * TUTTI_SIGNALS;
constexpr std::uint8_t SignalNumber(int context, int index) {
  return static_cast<std::uint8_t>(context * TUTTI_SIGNALS + index);
}

class Layout {
 public:
  // `inline_depth`: slots of a pair's inline ring. REQUIRES: nranks >= 1, channels >= 1.
  Layout(int nranks, int channels, std::uint32_t inline_depth = kInlineShape.depth);

  int nranks() const { return nranks_; }
  int channels() const { return channels_; }
  std::size_t bytes() const { return bytes_; }

  // The slots of `peer`'s ring, or (peer == nranks) of the post. Those of one protocol differ in depth only.
  SlotShape SlotShapeOf(Protocol protocol, int peer) const;
  // The ring that the segment's owner fills for `peer`, or (peer == nranks) its post.
  std::size_t RingOffset(int channel, Protocol protocol, int peer) const;
  std::size_t RingBytes(Protocol protocol, int peer) const;
  // Data bytes of a bulk slot.
  std::size_t bulk_capacity() const { return bulk_.capacity; }
  // Where the segment's owner publishes how far it has emptied `writer`'s ring for it (or its post).
  std::size_t HeadOffset(int channel, Protocol protocol, int writer, bool post) const;
  // Where `writer` takes back the memory that its slots of the channel refer to (FillEnd::Recall), from the segment's owner.
  std::size_t RecallOffset(int channel, int writer) const;
  // Where the segment's owner counts the signals that it has sent to `peer`: kSignals words of 64 bits, which begin at 0.
  std::size_t SignalsOffset(int peer) const {
    return signals_ + static_cast<std::size_t>(peer) * kSignals * sizeof(std::uint64_t);
  }

 private:
  std::size_t HeadLine(int channel, int writer) const;

  int nranks_;
  int channels_;
  SlotShape inline_;
  SlotShape bulk_;
  std::size_t heads_, signals_, lines_, inlines_, inline_bytes_, bulks_, bytes_;  // inline_bytes_: of a channel
};

}  // namespace tutti::ring
