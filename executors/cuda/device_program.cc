#include "executors/cuda/device_program.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/datatype.h"
#include "base/error.h"
#include "base/rounding.h"
#include "executors/cuda/kernels/element.h"
#include "executors/cuda/kernels/move.h"

namespace tutti {
namespace {

static_assert(kMaxReads <= kMoveSources, "a step fits one move");

// Smaller blocks have cheaper barriers. Each thread of a small block moves one vector at a time, or the contiguous part
// of one.
constexpr std::uint32_t kFewestThreads = 64;
constexpr std::uint32_t kWarp = 32;

std::uint32_t ThreadsFor(const Shape& shape, const StridedSides& strided, std::size_t longest_chunk) {
  std::size_t unit = shape.wire == Wire::line ? kPacketData : kVectorBytes;
  for (const Strided* const side : {strided.input, strided.output}) {
    if (side != nullptr) unit = std::gcd(unit, side->grain());
  }
  const std::size_t wanted = RoundUp((longest_chunk + unit - 1) / unit, kWarp);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted, kFewestThreads, kMaxThreads));
}

bool AnyIsStrided(const Step& step, const StridedSides& strided) {
  const auto is_strided = [&](const Operand& operand) {
    return (operand.place == Place::input && strided.input != nullptr) ||
           (operand.place == Place::output && strided.output != nullptr);
  };
  return std::any_of(step.reads.begin(), step.reads.end(), is_strided) ||
         std::any_of(step.writes.begin(), step.writes.end(), is_strided);
}

// Appends tables to the image of one piece of device memory; Add() returns the offset of each.
class Pieces {
 public:
  template <typename T>
  std::size_t Add(const std::vector<T>& values) {
    const std::size_t at = RoundUp(bytes_.size(), kTableAlignment);
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
    return at;
  }
  // Pads to the table alignment, so that whole-vector reads do not pass the end.
  std::vector<std::byte>& Padded() {
    bytes_.resize(RoundUp(bytes_.size(), kTableAlignment));
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
};

// The index of `end` in a list without duplicates; appends it if absent.
std::uint16_t PlaceIn(std::vector<std::uint32_t>& ends, std::uint32_t end) {
  const auto found = std::find(ends.begin(), ends.end(), end);
  const auto place = static_cast<std::uint16_t>(found - ends.begin());
  if (found == ends.end()) ends.push_back(end);
  return place;
}

}  // namespace

// A lane before its table is written.
struct DeviceProgram::BoundLane {
  DeviceLane lane{};
  std::vector<DeviceStep> steps;
  std::vector<DeviceOperand> operands;
  std::vector<DeviceAfter> afters;
  std::vector<std::uint32_t> fills, empties;
};

struct DeviceProgram::Image {
  StridedSides strided;
  std::vector<BoundLane> lanes;
  std::size_t longest_chunk = 0;

  // Writes the lane's table to `tables` and its location to the lane.
  DeviceLane Write(BoundLane& bound, Pieces& tables) const {
    DeviceLane& lane = bound.lane;
    lane.steps = static_cast<std::uint32_t>(bound.steps.size());
    lane.operands = static_cast<std::uint32_t>(bound.operands.size());
    lane.afters = static_cast<std::uint32_t>(bound.afters.size());
    lane.fills = static_cast<std::uint32_t>(bound.fills.size());
    lane.empties = static_cast<std::uint32_t>(bound.empties.size());
    lane.table = static_cast<std::uint32_t>(tables.Add(bound.steps));
    tables.Add(bound.operands);
    tables.Add(bound.afters);
    std::vector<std::uint32_t> ends = bound.fills;
    ends.insert(ends.end(), bound.empties.begin(), bound.empties.end());
    tables.Add(ends);
    return lane;
  }
};

DeviceProgram::DeviceProgram(Schedule schedule, Extents extents, Shape shape, tuttiDataType_t type, tuttiRedOp_t op,
                             const StridedSides& strided, const CallIdentity& identity, const DeviceFabric& fabric,
                             DeviceArena& arena, int first_channel)
    : schedule_(std::move(schedule)),
      extents_(std::move(extents)),
      shape_(shape),
      binding_(schedule_, extents_, shape.chunk_bytes) {
  const auto capacity = shape_.wire == Wire::line ? fabric.layout().line_capacity() : fabric.bulk_capacity();
  const bool may_be_longer = shape_.wire == Wire::bulk && MayAlwaysRefer(schedule_);
  const bool too_long = shape_.chunk_bytes > capacity && !may_be_longer;
  if (shape_.wire == Wire::inlined || shape_.chunk_bytes == 0 || too_long) {
    Throw(tuttiInternalError, "a chunk of {} bytes does not fit a {} slot of {} on a GPU", shape_.chunk_bytes,
          NameOf(shape_.wire), capacity);
  }
  Image image{strided, {}, 0};
  for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
    AddChannel(image, static_cast<int>(c), fabric, first_channel);
  }
  lanes_ = static_cast<std::uint32_t>(image.lanes.size());
  threads_ = ThreadsFor(shape_, strided, image.longest_chunk);

  Pieces tables;
  std::vector<DeviceLane> lanes;
  for (BoundLane& bound : image.lanes) lanes.push_back(image.Write(bound, tables));
  Pieces pieces;
  DevicePlan plan{};
  pieces.Add(std::vector(1, plan));
  static_assert(sizeof(DevicePlan) % kTableAlignment == 0, "the lanes lie right behind the plan");
  pieces.Add(lanes);
  const auto tables_at = pieces.Add(tables.Padded());
  std::vector<Strided> sides;
  for (const Strided* const side : {strided.input, strided.output}) {
    if (side != nullptr) sides.push_back(*side);
  }
  const auto sides_at = pieces.Add(sides);
  memory_ = arena.Allocate(pieces.Padded().size());
  const std::size_t scratch = binding_.scratch_bytes() * schedule_.channels.size();

  plan.tables = memory_ + tables_at;
  plan.scratch = scratch > 0 ? arena.Allocate(scratch) : nullptr;
  const auto* const placed = reinterpret_cast<const Strided*>(memory_ + sides_at);
  plan.input_strided = strided.input != nullptr ? placed : nullptr;
  plan.output_strided = strided.output != nullptr ? placed + (sides.size() - 1) : nullptr;
  plan.scratch_bytes = binding_.scratch_bytes();
  plan.chunk_bytes = shape_.chunk_bytes;
  plan.signature = identity.signature;
  plan.call = identity.call;
  plan.count = identity.count;
  plan.lane_count = lanes_;
  plan.divisor = op == tuttiAvg ? schedule_.nranks : 0;
  plan.reducer = ReducerOf(type, op);
  plan.element_bytes = static_cast<std::uint8_t>(SizeOf(type));
  plan.wire = shape_.wire;
  plan.whole_scratch = schedule_.whole_scratch;
  std::memcpy(pieces.Padded().data(), &plan, sizeof plan);
  arena.Write(memory_, pieces.Padded().data(), pieces.Padded().size());
}

DeviceOperand DeviceProgram::Bind(const Operand& operand, bool written, int channel, const DeviceFabric& fabric,
                                  int fabric_channel) const {
  DeviceOperand bound{operand.place, operand.scaled, 0, 0, 0};
  const int by = fabric_channel + operand.connection;
  switch (operand.place) {
    case Place::to: bound.end = fabric.To(by, shape_.wire, operand.peer); break;
    case Place::from: bound.end = fabric.From(by, shape_.wire, operand.peer); break;
    case Place::post:
      bound.end =
          written ? fabric.Post(fabric_channel, shape_.wire) : fabric.PostOf(fabric_channel, shape_.wire, operand.peer);
      break;
    default: bound.offset = binding_.OffsetOf(operand, channel);
  }
  return bound;
}

DeviceProgram::Traffic& DeviceProgram::TrafficWith(const Operand& slot, const DeviceFabric& fabric) {
  if (slot.place == Place::post || !fabric.by_network(slot.peer)) return on_host_;
  network_peers_.push_back(slot.peer);
  return by_network_;
}

DeviceStep DeviceProgram::AddStep(BoundLane& lane, const Step& step, int channel, const DeviceFabric& fabric,
                                  int fabric_channel) {
  DeviceStep bound{};
  bound.bytes = binding_.BytesOf(step, channel);
  bound.chunks = binding_.ChunksOf(step, channel);
  bound.operands = static_cast<std::uint32_t>(lane.operands.size());
  bound.after = static_cast<std::uint32_t>(lane.afters.size());
  bound.referable = ReferableOf(step);
  bound.reads = static_cast<std::uint8_t>(step.reads.size());
  bound.writes = static_cast<std::uint8_t>(step.writes.size());
  bound.afters = static_cast<std::uint8_t>(step.after.size());
  bound.arithmetic = step.reads.size() > 1;
  bound.final = step.final;
  for (const Operand& read : step.reads) {
    auto& operand = lane.operands.emplace_back(Bind(read, false, channel, fabric, fabric_channel));
    if (!IsSlot(read.place)) continue;
    TrafficWith(read, fabric).received += bound.bytes;
    operand.local = PlaceIn(lane.empties, operand.end);
  }
  for (const Operand& write : step.writes) {
    auto& operand = lane.operands.emplace_back(Bind(write, true, channel, fabric, fabric_channel));
    if (!IsSlot(write.place)) continue;
    const int readers = write.place == Place::post ? fabric.readers_of_posts() : 1;
    TrafficWith(write, fabric).sent += bound.bytes * static_cast<std::size_t>(readers);
    operand.local = PlaceIn(lane.fills, operand.end);
  }
  lane.steps.push_back(bound);
  return bound;
}

void DeviceProgram::AddChannel(Image& image, int channel, const DeviceFabric& fabric, int first_channel) {
  const auto& lanes = schedule_.channels[static_cast<std::size_t>(channel)].lanes;
  const int fabric_channel = first_channel + channel * schedule_.connections;
  const std::size_t first_lane = image.lanes.size();
  image.lanes.resize(first_lane + lanes.size());
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    BoundLane& lane = image.lanes[first_lane + l];
    lane.lane.channel = static_cast<std::uint32_t>(channel);
    for (const Step& step : lanes[l].steps) {
      const DeviceStep bound = AddStep(lane, step, channel, fabric, fabric_channel);
      lane.steps.back().strided = AnyIsStrided(step, image.strided);
      for (const After& after : step.after) {
        const std::size_t other = first_lane + static_cast<std::size_t>(after.lane);
        lane.afters.push_back({static_cast<std::uint32_t>(other), static_cast<std::uint32_t>(after.step),
                               static_cast<std::uint32_t>(lanes[static_cast<std::size_t>(after.lane)].steps.size())});
      }
      lane.lane.chunks = std::max(lane.lane.chunks, bound.chunks);
      image.longest_chunk = std::max(image.longest_chunk, std::min<std::size_t>(bound.bytes, shape_.chunk_bytes));
    }
  }
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (const DeviceAfter& after : image.lanes[first_lane + l].afters) {
      image.lanes[after.lane].lane.awaited = true;
      image.lanes[after.lane].steps[after.step].awaited = true;
    }
  }
}

}  // namespace tutti
