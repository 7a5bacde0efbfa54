#include "algorithms/schedule/binding.h"

#include <algorithm>

#include "algorithms/schedule/ways.h"
#include "base/numbers/rounding.h"
#include "transports/ring/slot_arithmetic.h"

namespace tutti::schedule {

Binding::Binding(const Schedule& schedule, const Extents& extents, std::size_t chunk_bytes)
    : schedule_(schedule), extents_(extents), chunk_bytes_(chunk_bytes), scratch_stride_(chunk_bytes) {
  if (!schedule.whole_scratch) return;
  for (const std::size_t length : extents.length) {
    // The first channel's share is the longest.
    scratch_stride_ = std::max(scratch_stride_, RoundUp(ShareOf(length, 1) - ShareOf(length, 0), chunk_bytes));
  }
}

std::size_t Binding::ShareOf(std::size_t length, int channel) const {
  return ShareBegin(length, static_cast<std::size_t>(channel), schedule_.channels.size());
}

std::size_t Binding::scratch_bytes() const {
  return static_cast<std::size_t>(schedule_.scratch_blocks) * scratch_stride_;
}

std::size_t Binding::OffsetOf(const Operand& operand, int channel) const {
  const auto block = static_cast<std::size_t>(operand.block);
  switch (operand.kind) {
    case OperandKind::input: return extents_.input_offset.at(block) + ShareOf(extents_.length.at(block), channel);
    case OperandKind::output: {
      // The data that all_to_all receives from q has the length of block nranks + q.
      const auto length_of =
          extents_.length.size() > extents_.output_offset.size() ? block + extents_.output_offset.size() : block;
      return extents_.output_offset.at(block) + ShareOf(extents_.length.at(length_of), channel);
    }
    default: return block * scratch_stride_;
  }
}

std::size_t Binding::BytesOf(const Step& step, int channel) const {
  const std::size_t length = extents_.length.at(static_cast<std::size_t>(step.block));
  return ShareOf(length, channel + 1) - ShareOf(length, channel);
}

std::uint32_t Binding::ChunksOf(const Step& step, int channel) const {
  const auto chunks = ring::ChunkCount(BytesOf(step, channel), chunk_bytes_);
  const auto is_slot = [](const Operand& operand) { return IsSlot(operand.kind); };
  const bool talks = std::any_of(step.reads.begin(), step.reads.end(), is_slot) ||
                     std::any_of(step.writes.begin(), step.writes.end(), is_slot);
  return extents_.pairwise && talks ? std::max(chunks, 1U) : chunks;
}

int ReferableOf(const Step& step) {
  if (UsesTeam(step)) return -1;
  const auto is_memory = [](const Operand& o) { return o.kind == OperandKind::input || o.kind == OperandKind::output; };
  if (step.reads.size() == 1 && is_memory(step.reads.front())) return 0;
  const auto written = std::find_if(step.writes.begin(), step.writes.end(), is_memory);
  if (written == step.writes.end()) return -1;
  return static_cast<int>(step.reads.size()) + static_cast<int>(written - step.writes.begin());
}

int AccessesOf(const Step& step, bool refers) {
  const auto slots =
      std::count_if(step.writes.begin(), step.writes.end(), [](const Operand& write) { return IsSlot(write.kind); });
  return static_cast<int>(std::ssize(step.reads) + std::ssize(step.writes) - (refers ? slots : 0));
}

std::size_t LanesOf(const Schedule& schedule) {
  std::size_t lanes = 0;
  for (const auto& channel : schedule.channels) lanes += channel.lanes.size();
  return lanes;
}

bool MayAlwaysRefer(const Schedule& schedule) {
  const auto refers = [](const Step& step) {
    const auto& writes = step.writes;
    return std::none_of(writes.begin(), writes.end(), [](const Operand& write) { return IsSlot(write.kind); }) ||
           ReferableOf(step) >= 0;
  };
  for (const auto& channel : schedule.channels) {
    for (const Lane& lane : channel.lanes) {
      if (!std::all_of(lane.steps.begin(), lane.steps.end(), refers)) return false;
    }
  }
  return schedule.reference_safe && schedule.reference_safe_in_place;
}

}  // namespace tutti::schedule
