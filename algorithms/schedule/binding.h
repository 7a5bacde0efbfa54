// What an executor works out of a schedule once its extents and chunks are known, whatever it runs on: where each
// operand in memory lies, how long and how often each step is done.
//
// Thread-safety: value type; refers to the schedule and extents it was made of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "algorithms/schedule/extents.h"
#include "algorithms/schedule/schedule.h"

namespace tutti {

constexpr bool IsSlot(Place place) { return place == Place::from || place == Place::to || place == Place::post; }

class Binding {
 public:
  // REQUIRES: chunk_bytes > 0; both outlive this.
  Binding(const Schedule& schedule, const Extents& extents, std::size_t chunk_bytes);

  // Of one channel.
  std::size_t scratch_bytes() const;
  // Bytes from the start of input, output or the channel's scratch. REQUIRES: the operand is memory.
  std::size_t OffsetOf(const Operand& operand, int channel) const;
  // Of the step's block in this channel.
  std::size_t BytesOf(const Step& step, int channel) const;
  // How often the step is done: a pair that exchanges nothing still says so (Extents::pairwise).
  std::uint32_t ChunksOf(const Step& step, int channel) const;

 private:
  std::size_t ShareOf(std::size_t length, int channel) const;

  const Schedule& schedule_;
  const Extents& extents_;
  std::size_t chunk_bytes_;
  std::size_t scratch_stride_;  // from one block of scratch to the next
};

// Memory whose content equals what the step puts into its slots, if a slot may refer to it instead: the only source of
// a copy, or a block that the step itself writes. An index into its reads and then its writes; -1: there is none.
int ReferableOf(const Step& step);
// Of all channels: thread blocks that a GPU needs.
std::size_t LanesOf(const Schedule& schedule);
// Can a slot refer to memory wherever the schedule fills one, in place or not? Then no slot need carry data.
bool MayAlwaysRefer(const Schedule& schedule);

}  // namespace tutti
