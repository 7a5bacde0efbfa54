#include "executors/host/plan.h"

#include <algorithm>

#include "base/datatype.h"
#include "base/error.h"
#include "base/rounding.h"
#include "transports/progress/network.h"

namespace tutti {
namespace {

// Takes the page faults of the part of a ring that chunks of this size will touch, the first time a plan uses it.
// Repeating it for present pages is cheap.
template <typename End>
void PopulateRing(const End& end, Wire wire, std::size_t chunk_bytes) {
  const auto& shape = end.shape();
  if (wire != Wire::bulk) return Segment::Populate(end.slots(), std::size_t{shape.stride} * shape.depth);
  for (std::uint32_t i = 0; i < shape.depth; ++i) {
    Segment::Populate(end.slots() + std::size_t{i} * shape.stride, shape.data_offset + chunk_bytes);
  }
}

}  // namespace

Plan::Plan(Schedule schedule, Extents extents, Shape shape, tuttiDataType_t type, tuttiRedOp_t op, Fabric& fabric,
           int first_channel)
    : schedule_(std::move(schedule)),
      extents_(std::move(extents)),
      shape_(shape),
      binding_(schedule_, extents_, shape.chunk_bytes),
      type_(type),
      reduce_(SelectReduce(type, op == tuttiAvg ? tuttiSum : op)),
      divisor_(op == tuttiAvg ? schedule_.nranks : 0) {
  const auto capacity = fabric.layout().Shape(shape_.wire, 0).capacity;
  if (shape_.chunk_bytes == 0 || shape_.chunk_bytes > capacity) {
    Throw(tuttiInternalError, "a chunk of {} bytes does not fit a slot of {}", shape_.chunk_bytes, capacity);
  }
  for (std::size_t i = 0; i < schedule_.channels.size(); ++i) {
    const int index = static_cast<int>(i);
    Bind(schedule_.channels[i], index, fabric, first_channel + index * schedule_.connections);
  }
}

BoundOperand Plan::BindOperand(const Operand& operand, bool written, int channel, Fabric& fabric,
                               int fabric_channel) const {
  BoundOperand bound{operand.place, operand.scaled, IsSlot(operand.place)};
  if (operand.place == Place::to || operand.place == Place::from) {
    bound.peer = operand.peer;
    bound.by_network = !fabric.is_local(operand.peer);
    if (bound.by_network) fabric.network()->Need(operand.peer);
  }
  switch (operand.place) {
    case Place::input:
    case Place::output:
    case Place::scratch: bound.offset = binding_.OffsetOf(operand, channel); break;
    case Place::to: bound.fill = &fabric.To(fabric_channel + operand.connection, shape_.wire, operand.peer); break;
    case Place::from: bound.empty = &fabric.From(fabric_channel + operand.connection, shape_.wire, operand.peer); break;
    case Place::post:
      if (written) {
        bound.fill = &fabric.Post(fabric_channel, shape_.wire);
      } else {
        bound.empty = &fabric.PostOf(fabric_channel, shape_.wire, operand.peer);
      }
      break;
  }
  if (bound.fill != nullptr) PopulateRing(*bound.fill, shape_.wire, shape_.chunk_bytes);
  if (bound.empty != nullptr) PopulateRing(*bound.empty, shape_.wire, shape_.chunk_bytes);
  return bound;
}

void Plan::Bind(const Channel& channel, int index, Fabric& fabric, int fabric_channel) {
  BoundChannel bound_channel;
  for (std::size_t l = 0; l < channel.lanes.size(); ++l) {
    const auto& lane = channel.lanes[l];
    BoundLane bound_lane;
    for (std::size_t s = 0; s < lane.steps.size(); ++s) {
      const auto& step = lane.steps[s];
      const std::size_t bytes = binding_.BytesOf(step, index);
      auto operands = std::make_unique<std::vector<BoundOperand>>();
      for (const auto& read : step.reads) operands->push_back(BindOperand(read, false, index, fabric, fabric_channel));
      for (const auto& write : step.writes)
        operands->push_back(BindOperand(write, true, index, fabric, fabric_channel));

      BoundStep bound;
      bound.bytes = bytes;
      bound.length = binding_.ChunksOf(step, index);
      bound.reads = std::span(*operands).first(step.reads.size());
      bound.writes = std::span(*operands).subspan(step.reads.size());
      bound.after = schedule_.channels[static_cast<std::size_t>(index)].lanes[l].steps[s].after;
      bound.final = step.final;
      bound.arithmetic = step.reads.size() > 1;
      if (bound.arithmetic && fabric.cma()) {
        fetch_bytes_ = std::max(fetch_bytes_, step.reads.size() * shape_.chunk_bytes);
      }
      if (const int referable = ReferableOf(step); referable >= 0) {
        bound.referable = &(*operands)[static_cast<std::size_t>(referable)];
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
        if (!read.is_slot) footprint_ += bytes;
      }
      bound_lane.chunks = std::max(bound_lane.chunks, bound.length);
      bound_lane.steps.push_back(bound);
      operands_.push_back(std::move(operands));
    }
    bound_channel.lanes.push_back(std::move(bound_lane));
  }
  channels_.push_back(std::move(bound_channel));
}

}  // namespace tutti
