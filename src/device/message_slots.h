// Which slots carry messages between the GPUs of a host, if they are longer than a packet slot. The tools ask it, too, so
// that they explain what runs.
//
// Thread-safety: pure function.
#pragma once

#include "selection/cost_model/candidates.h"
#include "selection/tuner/message_table.h"
#include "transports/cuda/layout.h"

namespace tutti::device {

static_assert(cost_model::kFewestChannels == cuda_transport::kFewestMessageChannels,
              "MessageTable::At() takes up to so many channels between hosts");

// Lines where the GPUs have them: between GPUs they need a quarter of bulk slots' memory for the same bandwidth, because no
// fence delays them. But where bulk slots refer to the sender's memory, nothing is copied twice. Packets only where the
// user wants nothing else.
inline cost_model::MessageSlots MessageSlotsOf(const cuda_transport::DeviceLayout& layout,
                                               const cost_model::GpuSlots& slots, const cost_model::Forced& forced) {
  auto protocol = ring::Protocol::bulk;
  const bool may_be_bulk = tuner::MayTake(protocol, forced);
  if (slots.inlines && tuner::MayTake(ring::Protocol::inlined, forced) && !(slots.refer && may_be_bulk)) {
    protocol = ring::Protocol::inlined;
  } else if (slots.lines && tuner::MayTake(ring::Protocol::line, forced) && !may_be_bulk) {
    protocol = ring::Protocol::line;
  }
  return {layout.message_channels(), protocol, layout.message_capacity(protocol), cuda_transport::kDeviceMessageDepth};
}

}  // namespace tutti::device
