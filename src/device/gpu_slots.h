// Which slots of GPUs plans may use. The tools ask it, too, so that they explain what runs.
//
// Thread-safety: pure functions.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "executors/cuda/kernels/device_plan.h"
#include "selection/cost_model/candidates.h"
#include "selection/tuner/message_table.h"
#include "transports/cuda/layout.h"

namespace tutti::device {

static_assert(cost_model::kFewestChannels == cuda_transport::kFewestMessageChannels,
              "MessageTable::At() takes up to so many channels between hosts");

// The slots beside bulk that ranks have. `on_a_host`: ranks of the host with most; `lines`: lines of 128 bytes stay whole.
inline cuda_transport::DeviceLayout::Short ShortSlots(int on_a_host, bool one_host, bool lines) {
  // A step may have a post and other writes. Posts reach one host: with several there are none.
  const bool posts_fit = static_cast<std::size_t>(on_a_host) + schedule::kMaxWrites <= cuda_kernels::kMoveDestinations;
  const bool packets = one_host ? posts_fit : on_a_host > 1;
  return {packets, packets && lines, one_host};
}

// Why ranks of several hosts are not priced as GPUs; "": they are.
inline std::string WhyNotAlike(const cost_model::TuningContext& tuning) {
  const int nodes = tuning.where.nodes();
  const bool alike = tuning.nranks % nodes == 0 &&
                     tuning.where.node_of == schedule::ArrangeEvenly(tuning.nranks, nodes).node_of;
  return alike ? "" : "hosts have different numbers of ranks, or the ranks of a host are not consecutive";
}

// Why no plan would use a switch that adds between the GPUs of a host, if there were one; "": some may.
inline std::string WhyNoSwitch(const cost_model::TuningContext& tuning) {
  if (tuning.one_host && tuning.where.nodes() > 1) return "nodes are parts of one host (TUTTI_VIRTUAL_NODES)";
  if (!tuning.one_host) {
    if (auto why = WhyNotAlike(tuning); !why.empty()) return why;
  }
  // A step reads the slots of all that add, and those of two more hosts.
  constexpr std::size_t kFurtherReads = 2;
  constexpr std::size_t kMost = cuda_kernels::kMoveSources - kFurtherReads;
  const auto ranks_of_a_host = static_cast<std::size_t>(tuning.nranks / std::max(1, tuning.where.nodes()));
  return ranks_of_a_host <= kMost
             ? ""
             : fmt::format("a kernel sums the slots of up to {} ranks of a host, and it has {}", kMost, ranks_of_a_host);
}

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

// Takes the slots that ranks have. `reach`: the ranks of a host reach each other; `bulk`: data bytes of the shortest bulk slot,
// those between hosts included, which carry chunks of every protocol; `refer`: GpuSlots; `adds`: a switch adds.
inline void TakeSlots(const cuda_transport::DeviceLayout& layout, bool reach, std::size_t bulk, bool refer, bool adds,
                      cost_model::TuningContext& tuning) {
  const std::size_t packets = std::min(layout.line_capacity(), bulk);
  const std::size_t lines = reach ? std::min(layout.line128_capacity(), bulk) : 0;
  tuning.bulk_capacity = bulk;
  tuning.gpu_slots = {packets > 0, lines > 0, packets, lines, bulk, refer};
  tuning.messages = MessageSlotsOf(layout, tuning.gpu_slots, tuning.forced);
  tuning.in_switch = adds;
  if (adds) {
    const int channels = cuda_transport::TeamChannels(tuning.max_channels, tuning.one_host);
    tuning.gpu_slots.in_switch = cuda_transport::TeamLayout(layout.nranks(), channels).stride();
    tuning.gpu_slots.channels_in_switch = channels;
  }
}

}  // namespace tutti::device
