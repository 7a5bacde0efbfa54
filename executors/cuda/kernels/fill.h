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
