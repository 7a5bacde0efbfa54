#include "executors/cuda/device_program.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/datatype.h"
#include "base/error.h"
#include "base/rounding.h"
#include "executors/cuda/element.h"
#include "executors/cuda/move.h"

namespace tutti {
namespace {

static_assert(kMaxReads <= kMoveSources, "a step fits one move");

// A block of fewer threads has cheaper barriers. Each thread of a small one moves a vector at a time.
constexpr std::uint32_t kFewestThreads = 64;
constexpr std::uint32_t kWarp = 32;

std::uint32_t ThreadsFor(const Shape& shape, std::size_t longest_chunk) {
  const std::size_t unit = shape.wire == Wire::line ? kPacketData : kVectorBytes;
  const std::size_t wanted = RoundUp((longest_chunk + unit - 1) / unit, kWarp);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted, kFewestThreads, kMaxThreads));
}

// Appends to what will be one piece of device memory, and remembers where.
class Pieces {
 public:
  template <typename T>
  std::size_t Add(const std::vector<T>& values) {
    constexpr std::size_t kAlignment = 16;
    const std::size_t at = RoundUp(bytes_.size(), kAlignment);
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
    return at;
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

struct DeviceProgram::Image {
  std::vector<DeviceLane> lanes;
  std::vector<DeviceStep> steps;
  std::vector<DeviceOperand> operands;
  std::vector<DeviceAfter> afters;
  std::vector<std::uint32_t> drained;
  std::size_t longest_chunk = 0;
};

DeviceProgram::DeviceProgram(Schedule schedule, Extents extents, Shape shape, tuttiDataType_t type, tuttiRedOp_t op,
                             const CallIdentity& identity, const DeviceFabric& fabric, DeviceArena& arena,
                             int first_channel)
    : schedule_(std::move(schedule)),
      extents_(std::move(extents)),
      shape_(shape),
      binding_(schedule_, extents_, shape.chunk_bytes) {
  const auto capacity = shape_.wire == Wire::line ? fabric.layout().line_capacity() : fabric.layout().bulk_capacity();
  if (shape_.wire == Wire::inlined || shape_.chunk_bytes == 0 || shape_.chunk_bytes > capacity) {
    Throw(tuttiInternalError, "a chunk of {} bytes does not fit a {} slot of {} on a GPU", shape_.chunk_bytes,
          NameOf(shape_.wire), capacity);
  }
  Image image;
  for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
    AddChannel(image, static_cast<int>(c), fabric, first_channel);
  }
  lanes_ = static_cast<std::uint32_t>(image.lanes.size());
  threads_ = ThreadsFor(shape_, image.longest_chunk);

  Pieces pieces;
  DevicePlan plan{};
  pieces.Add(std::vector(1, plan));
  const auto lanes_at = pieces.Add(image.lanes);
  const auto steps_at = pieces.Add(image.steps);
  const auto operands_at = pieces.Add(image.operands);
  const auto afters_at = pieces.Add(image.afters);
  const auto drained_at = pieces.Add(image.drained);
  memory_ = arena.Allocate(pieces.bytes().size());
  const std::size_t scratch = binding_.scratch_bytes() * schedule_.channels.size();

  const std::byte* const base = memory_;
  plan.lanes = reinterpret_cast<const DeviceLane*>(base + lanes_at);
  plan.steps = reinterpret_cast<const DeviceStep*>(base + steps_at);
  plan.operands = reinterpret_cast<const DeviceOperand*>(base + operands_at);
  plan.afters = reinterpret_cast<const DeviceAfter*>(base + afters_at);
  plan.drained = reinterpret_cast<const std::uint32_t*>(base + drained_at);
  plan.scratch = scratch > 0 ? arena.Allocate(scratch) : nullptr;
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
  std::memcpy(pieces.bytes().data(), &plan, sizeof plan);
  arena.Write(memory_, pieces.bytes().data(), pieces.bytes().size());
}

DeviceOperand DeviceProgram::Bind(const Operand& operand, bool written, int channel, const DeviceFabric& fabric,
                                  int fabric_channel) const {
  DeviceOperand bound{operand.place, operand.scaled, 0, 0};
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

void DeviceProgram::AddChannel(Image& image, int channel, const DeviceFabric& fabric, int first_channel) {
  const auto& lanes = schedule_.channels[static_cast<std::size_t>(channel)].lanes;
  const int fabric_channel = first_channel + channel * schedule_.connections;
  const auto first_lane = static_cast<std::uint32_t>(image.lanes.size());
  for (const Lane& lane : lanes) {
    DeviceLane bound_lane{};
    bound_lane.first_step = static_cast<std::uint32_t>(image.steps.size());
    bound_lane.steps = static_cast<std::uint32_t>(lane.steps.size());
    bound_lane.channel = static_cast<std::uint32_t>(channel);
    bound_lane.first_fill = static_cast<std::uint32_t>(image.drained.size());
    std::vector<std::uint32_t> fills;
    for (const Step& step : lane.steps) {
      DeviceStep bound{};
      bound.bytes = binding_.BytesOf(step, channel);
      bound.chunks = binding_.ChunksOf(step, channel);
      bound.operands = static_cast<std::uint32_t>(image.operands.size());
      bound.after = static_cast<std::uint32_t>(image.afters.size());
      bound.referable = ReferableOf(step);
      bound.reads = static_cast<std::uint8_t>(step.reads.size());
      bound.writes = static_cast<std::uint8_t>(step.writes.size());
      bound.afters = static_cast<std::uint8_t>(step.after.size());
      bound.arithmetic = step.reads.size() > 1;
      bound.final = step.final;
      for (const Operand& read : step.reads) {
        image.operands.push_back(Bind(read, false, channel, fabric, fabric_channel));
        if (IsSlot(read.place)) bytes_received_ += bound.bytes;
      }
      for (const Operand& write : step.writes) {
        image.operands.push_back(Bind(write, true, channel, fabric, fabric_channel));
        if (!IsSlot(write.place)) continue;
        bytes_sent_ += bound.bytes * (write.place == Place::post ? static_cast<std::size_t>(schedule_.nranks - 1) : 1);
        fills.push_back(image.operands.back().end);
      }
      for (const After& after : step.after) {
        image.afters.push_back(
            {first_lane + static_cast<std::uint32_t>(after.lane), static_cast<std::uint32_t>(after.step)});
      }
      bound_lane.chunks = std::max(bound_lane.chunks, bound.chunks);
      image.longest_chunk = std::max(image.longest_chunk, std::min<std::size_t>(bound.bytes, shape_.chunk_bytes));
      image.steps.push_back(bound);
    }
    std::sort(fills.begin(), fills.end());
    fills.erase(std::unique(fills.begin(), fills.end()), fills.end());
    image.drained.insert(image.drained.end(), fills.begin(), fills.end());
    bound_lane.fills = static_cast<std::uint32_t>(fills.size());
    image.lanes.push_back(bound_lane);
  }
}

}  // namespace tutti
