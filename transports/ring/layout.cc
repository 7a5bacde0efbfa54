#include "transports/ring/layout.h"

#include <algorithm>

#include "base/numbers/rounding.h"

namespace tutti::ring {
namespace {

constexpr std::size_t kPage = 4096;
// The heads of a channel and a writer: of each protocol's ring and post.
constexpr std::size_t kHeads = std::size_t{kProtocols} * 2;
using Word = std::atomic<std::uint32_t>;
static_assert((kHeads + 1) * sizeof(Word) <= kCacheLine, "the heads and a recall share a line");
constexpr std::size_t BytesOf(const SlotShape& shape) { return std::size_t{shape.stride} * shape.depth; }

}  // namespace

Layout::Layout(int nranks, int channels, std::uint32_t inline_depth)
    : nranks_(nranks), channels_(channels), inline_(kInlineShape) {
  inline_.depth = inline_depth;
  const auto rings = static_cast<std::size_t>(channels) * (static_cast<std::size_t>(nranks) + 1);
  // The even share, less one extra line per slot and one that makes their number odd.
  const std::size_t share = kBulkPoolBytes / rings / kBulkDepth;
  const std::size_t capacity = std::min(kMaxBulkCapacity, (share - 2 * kCacheLine) / kCacheLine * kCacheLine);
  bulk_ = BulkShape(static_cast<std::uint32_t>(capacity), kBulkDepth);
  heads_ = RoundUp(sizeof(ControlBlock), kPage);
  signals_ = heads_ + static_cast<std::size_t>(channels) * nranks * kCacheLine;
  lines_ = RoundUp(SignalsOffset(nranks), kPage);
  inlines_ = lines_ + rings * BytesOf(kLineShape);
  inline_bytes_ = static_cast<std::size_t>(nranks) * BytesOf(inline_) + BytesOf(kInlinePostShape);
  bulks_ = RoundUp(inlines_ + static_cast<std::size_t>(channels) * inline_bytes_, kPage);
  bytes_ = RoundUp(bulks_ + rings * BytesOf(bulk_), kPage);
}

SlotShape Layout::SlotShapeOf(Protocol protocol, int peer) const {
  switch (protocol) {
    case Protocol::line: return kLineShape;
    case Protocol::inlined: return peer == nranks_ ? kInlinePostShape : inline_;
    case Protocol::bulk: break;
  }
  return bulk_;
}

std::size_t Layout::RingBytes(Protocol protocol, int peer) const { return BytesOf(SlotShapeOf(protocol, peer)); }

std::size_t Layout::RingOffset(int channel, Protocol protocol, int peer) const {
  const auto c = static_cast<std::size_t>(channel), p = static_cast<std::size_t>(peer);
  // Inline rings: the pairs' first, then the channel's post, which is longer.
  if (protocol == Protocol::inlined) return inlines_ + c * inline_bytes_ + p * BytesOf(inline_);
  const auto ring = c * (static_cast<std::size_t>(nranks_) + 1) + p;
  return protocol == Protocol::line ? lines_ + ring * BytesOf(kLineShape) : bulks_ + ring * BytesOf(bulk_);
}

// One line per writer: only that writer ever polls it.
std::size_t Layout::HeadLine(int channel, int writer) const {
  return heads_ + (static_cast<std::size_t>(channel) * nranks_ + writer) * kCacheLine;
}

std::size_t Layout::HeadOffset(int channel, Protocol protocol, int writer, bool post) const {
  return HeadLine(channel, writer) + (static_cast<std::size_t>(protocol) * 2 + (post ? 1 : 0)) * sizeof(Word);
}

// In the line that the reader writes next anyway, to publish that it has emptied the slot.
std::size_t Layout::RecallOffset(int channel, int writer) const {
  return HeadLine(channel, writer) + kHeads * sizeof(Word);
}

}  // namespace tutti::ring
