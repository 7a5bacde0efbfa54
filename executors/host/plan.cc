#include "executors/host/plan.h"

#include <algorithm>

#include "algorithms/schedule/one_lane.h"
#include "base/error.h"
#include "base/numbers/datatype.h"
#include "base/numbers/rounding.h"
#include "transports/progress/network_peer.h"

namespace tutti::host {
namespace {

// Takes the page faults of the part of a ring that chunks of this size will touch, the first time a plan uses it.
// Repeating it for present pages is cheap.
template <typename End>
void PopulateRing(const End& end, ring::Protocol protocol, std::size_t chunk_bytes) {
  const auto& shape = end.shape();
  if (protocol != ring::Protocol::bulk)
    return shm::Segment::Populate(end.slots(), std::size_t{shape.stride} * shape.depth);
  for (std::uint32_t i = 0; i < shape.depth; ++i) {
    shm::Segment::Populate(end.slots() + std::size_t{i} * shape.stride,
                           shape.data_offset + std::max(chunk_bytes, end.span()));
  }
}

}  // namespace

Plan::Plan(schedule::Schedule schedule, schedule::Extents extents, schedule::ProtocolConfig config,
           tuttiDataType_t type, tuttiRedOp_t op, shm::Fabric& fabric, int first_channel)
    : schedule_(std::move(schedule)),
      extents_(std::move(extents)),
      config_(config),
      binding_(schedule_, extents_, config.chunk_bytes),
      type_(type),
      reduce_(host_kernels::SelectReduce(type, op == tuttiAvg ? tuttiSum : op)),
      divisor_(op == tuttiAvg ? schedule_.nranks : 0) {
  const auto capacity = fabric.layout().SlotShapeOf(config_.protocol, 0).capacity;
  if (config_.chunk_bytes == 0 || config_.chunk_bytes > capacity) {
    Throw(tuttiInternalError, "a chunk of {} bytes does not fit into a slot of {} bytes", config_.chunk_bytes,
          capacity);
  }
  if (schedule_.one_launch) Throw(tuttiInternalError, "only a GPU runs all ranks' parts in one launch");
  one_pass_ = IsOnePass();
  if (one_pass_) schedule_.channels.front() = {{schedule::InOneLane(schedule_.channels.front())}};
  for (std::size_t i = 0; i < schedule_.channels.size(); ++i) {
    const int index = static_cast<int>(i);
    Bind(schedule_.channels[i], index, fabric, first_channel + index * schedule_.connections);
  }
}

bool Plan::IsOnePass() const {
  if (config_.protocol == ring::Protocol::bulk || !schedule_.one_lane_safe || schedule_.channels.size() != 1)
    return false;
  return std::ranges::all_of(schedule_.channels.front().lanes, [&](const schedule::Lane& lane) {
    return std::ranges::all_of(lane.steps, [&](const schedule::Step& step) { return binding_.ChunksOf(step, 0) <= 1; });
  });
}

BoundOperand Plan::BindOperand(const schedule::Operand& operand, bool written, int channel, shm::Fabric& fabric,
                               int fabric_channel) {
  BoundOperand bound{operand.kind, operand.scaled, schedule::IsSlot(operand.kind)};
  if (operand.kind == schedule::OperandKind::to || operand.kind == schedule::OperandKind::from) {
    bound.peer = operand.peer;
    bound.by_network = !fabric.is_local(operand.peer);
    if (bound.by_network) {
      network_peers_.push_back(operand.peer);
      bound.connection =
          static_cast<std::uint16_t>(progress::ConnectionOf(fabric_channel + operand.connection, config_.protocol));
    }
  }
  switch (operand.kind) {
    case schedule::OperandKind::input:
    case schedule::OperandKind::output:
    case schedule::OperandKind::scratch: bound.offset = binding_.OffsetOf(operand, channel); break;
    case schedule::OperandKind::to:
      bound.fill = &fabric.To(fabric_channel + operand.connection, config_.protocol, operand.peer);
      break;
    case schedule::OperandKind::from:
      bound.empty = &fabric.From(fabric_channel + operand.connection, config_.protocol, operand.peer);
      break;
    case schedule::OperandKind::post:
      if (written) {
        bound.fill = &fabric.Post(fabric_channel, config_.protocol);
      } else {
        bound.empty = &fabric.PostOf(fabric_channel, config_.protocol, operand.peer);
      }
      break;
    case schedule::OperandKind::contribution:
    case schedule::OperandKind::sum:
    case schedule::OperandKind::multicast: Throw(tuttiInternalError, "only a switch between GPUs adds what passes it");
  }
  if (bound.fill != nullptr) PopulateRing(*bound.fill, config_.protocol, config_.chunk_bytes);
  if (bound.empty != nullptr) PopulateRing(*bound.empty, config_.protocol, config_.chunk_bytes);
  return bound;
}

void Plan::Bind(const schedule::Channel& channel, int index, shm::Fabric& fabric, int fabric_channel) {
  BoundChannel bound_channel;
  for (std::size_t l = 0; l < channel.lanes.size(); ++l) {
    const auto& lane = channel.lanes[l];
    BoundLane bound_lane;
    bound_lane.steps.reserve(lane.steps.size());
    std::size_t operand_count = 0;
    for (const auto& step : lane.steps) operand_count += step.reads.size() + step.writes.size();
    auto& operands = operands_.emplace_back();
    operands.reserve(operand_count);  // steps point to them
    for (std::size_t s = 0; s < lane.steps.size(); ++s) {
      const auto& step = lane.steps[s];
      const std::size_t bytes = binding_.BytesOf(step, index);
      const std::size_t first = operands.size();
      for (const auto& read : step.reads) operands.push_back(BindOperand(read, false, index, fabric, fabric_channel));
      for (const auto& write : step.writes) operands.push_back(BindOperand(write, true, index, fabric, fabric_channel));

      BoundStep bound;
      bound.bytes = bytes;
      bound.length = binding_.ChunksOf(step, index);
      if (one_pass_ && bound.length == 0) continue;  // nothing waits for it: it moves nothing
      bound.reads = std::span(operands).subspan(first, step.reads.size());
      bound.writes = std::span(operands).subspan(first + step.reads.size());
      bound.after = schedule_.channels[static_cast<std::size_t>(index)].lanes[l].steps[s].after;
      bound.final = step.final;
      bound.arithmetic = step.reads.size() > 1;
      if (bound.arithmetic && config_.cma) {
        fetch_bytes_ = std::max(fetch_bytes_, step.reads.size() * config_.chunk_bytes);
      }
      if (const int referable = schedule::ReferableOf(step); referable >= 0) {
        bound.referable = &operands[first + static_cast<std::size_t>(referable)];
      }
      for (const auto& write : bound.writes) {
        if (!write.is_slot) {
          footprint_ += bytes;
          continue;
        }
        bound.fills = true;
        if (std::find(bound_lane.fills.begin(), bound_lane.fills.end(), write.fill) == bound_lane.fills.end()) {
          bound_lane.fills.push_back(write.fill);
        }
      }
      for (const auto& read : bound.reads) {
        if (read.is_slot) continue;
        footprint_ += bytes;
        if (read.kind != schedule::OperandKind::input) continue;
        reads_input_.begin = std::min(reads_input_.begin, read.offset);
        reads_input_.end = std::max(reads_input_.end, read.offset + bytes);
      }
      bound.uses_slots =
          bound.fills || std::ranges::any_of(bound.reads, [](const BoundOperand& read) { return read.is_slot; });
      bound_lane.chunks = std::max(bound_lane.chunks, bound.length);
      bound_lane.steps.push_back(bound);
    }
    bound_channel.lanes.push_back(std::move(bound_lane));
  }
  FindLandings(bound_channel);
  channels_.push_back(std::move(bound_channel));
}

}  // namespace tutti::host
