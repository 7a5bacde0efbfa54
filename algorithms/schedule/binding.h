// Derives the numbers that an executor needs from a schedule, its extents and its chunks: where each operand in memory
// lies, how long each step's data is and how often the step runs.
//
// Thread-safety: value type; refers to the schedule and extents it was made of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "algorithms/schedule/extents.h"
#include "algorithms/schedule/schedule.h"

namespace tutti::schedule {

class Binding {
 public:
  // REQUIRES: chunk_bytes > 0; both outlive this.
  Binding(const Schedule& schedule, const Extents& extents, std::size_t chunk_bytes);

  // Scratch of one channel.
  std::size_t scratch_bytes() const;
  // Bytes from the start of input, output or the channel's scratch. REQUIRES: the operand is memory.
  std::size_t OffsetOf(const Operand& operand, int channel) const;
  // Bytes of the step's block in this channel.
  std::size_t BytesOf(const Step& step, int channel) const;
  // How often the step runs: a pair that exchanges nothing still sends an empty slot (Extents::pairwise).
  std::uint32_t ChunksOf(const Step& step, int channel) const;

 private:
  std::size_t ShareOf(std::size_t length, int channel) const;

  const Schedule& schedule_;
  const Extents& extents_;
  std::size_t chunk_bytes_;
  std::size_t scratch_stride_;  // from one block of scratch to the next
};

// Memory whose content equals what the step puts into its slots, if a slot may refer to it instead: the only source of
// a copy, or a block that the step itself writes. (A switch adds and multiplies data, not references.) Returns an index
// into its reads and then its writes; -1: none.
int ReferableOf(const Step& step);
// Operands whose data passes a memory that all ranks share. `refers`: the slots that the step fills refer to another
// operand.
int AccessesOf(const Step& step, bool refers);
// Lanes of all channels: the thread blocks that a GPU needs.
std::size_t LanesOf(const Schedule& schedule);
// Whether a slot can refer to memory wherever the schedule fills one, in place or not; then no slot need carry data.
bool MayAlwaysRefer(const Schedule& schedule);

}  // namespace tutti::schedule
