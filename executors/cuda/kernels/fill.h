// The filler's side of a connection: it sees which slots its readers have emptied and announces those it has filled.
// Slot `number` is one more than its index.
//
// Thread-safety: called by the one thread that handles the connection in a step.
#pragma once

#include "executors/cuda/kernels/lane_cache.h"

namespace tutti::cuda_kernels {

// Slots that every reader has emptied. `wide`: not all ranks are on this GPU.
TUTTI_DEVICE std::uint32_t SlowestHead(const LaneTable::Fill& fill, bool wide) {
  std::uint32_t lag = 0;
  TUTTI_ROLLED
  for (std::uint32_t r = 0; r < fill.end.reader_count; ++r) {
    const std::uint32_t behind = fill.end.tail - LoadPolled(fill.readers[r].head, wide);
    lag = behind > lag ? behind : lag;
  }
  return fill.end.tail - lag;
}

// Bulk protocol: the header, without its flag, of a slot with `bytes` of the operation's data. `reference`: the memory
// that it refers to, from byte `done` on; null: it carries the data.
TUTTI_DEVICE cuda_transport::DeviceSlotHeader HeaderOf(const DeviceWork& work, const DeviceOperand* reference,
                                                       std::uint64_t done, std::uint32_t bytes) {
  cuda_transport::DeviceSlotHeader told{};
  told.content = cuda_transport::DeviceSlotContent(bytes, ring::SlotKind::value, 0).word();
  if (reference != nullptr) {
    const bool input = reference->kind == schedule::OperandKind::input;
    const auto kind = static_cast<ring::SlotKind>(input ? work.input_kind : work.output_kind);
    told.content =
        cuda_transport::DeviceSlotContent(bytes, kind, input ? work.input_window : work.output_window).word();
    told.address = (input ? work.input_base : work.output_base) + reference->offset + done;
  }
  return told;
}

// Bulk protocol: writes the slot's header for each reader, except the flag.
TUTTI_DEVICE void Describe(const LaneTable::Fill& fill, std::uint32_t number,
                           const cuda_transport::DeviceSlotHeader& told) {
  const std::uint32_t slot = ring::SlotIndex(number - 1, fill.end.depth);
  TUTTI_ROLLED
  for (std::uint32_t r = 0; r < fill.end.reader_count; ++r) {
    cuda_transport::DeviceSlotHeader& header = *HeaderAt(fill.readers[r].headers, slot, fill.end.header_stride);
    header.content = told.content;
    header.address = told.address;
  }
}
// Raises the slot's flag for each reader.
TUTTI_DEVICE void RaiseFlags(const LaneTable::Fill& fill, std::uint32_t number, std::uint32_t tag) {
  const std::uint32_t slot = ring::SlotIndex(number - 1, fill.end.depth);
  TUTTI_ROLLED
  for (std::uint32_t r = 0; r < fill.end.reader_count; ++r) {
    cuda_transport::DeviceSlotHeader* const header = HeaderAt(fill.readers[r].headers, slot, fill.end.header_stride);
    StoreReleased(&header->flag, ring::SlotFlag(number, tag));
  }
}

}  // namespace tutti::cuda_kernels
