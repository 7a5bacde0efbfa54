#include "executors/cuda/device_program.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "algorithms/schedule/ways.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers/datatype.h"
#include "base/numbers/rounding.h"
#include "executors/cuda/kernels/element.h"
#include "executors/cuda/kernels/move.h"

namespace tutti::cuda {
namespace {

static_assert(schedule::kMaxReads <= cuda_kernels::kMoveSources, "a step fits one move");

// Smaller blocks have cheaper barriers. Each thread of a small block moves one vector at a time, or the contiguous part
// of one.
constexpr std::uint32_t kFewestThreads = 64;
constexpr std::uint32_t kWarp = 32;

std::uint32_t ThreadsFor(const schedule::ProtocolConfig& config, const StridedSides& strided,
                         std::size_t longest_chunk) {
  std::size_t unit = config.protocol == ring::Protocol::line ? cuda_kernels::kPacketData : cuda_kernels::kVectorBytes;
  for (const schedule::Strided* const side : {strided.input, strided.output}) {
    if (side != nullptr) unit = std::gcd(unit, side->grain());
  }
  const std::size_t wanted = RoundUp((longest_chunk + unit - 1) / unit, kWarp);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted, kFewestThreads, cuda_kernels::kMaxThreads));
}

// Data bytes of a slot; 0: the GPUs have no such slots. `peer`: of a message; -1: of a collective.
std::size_t CapacityOf(ring::Protocol protocol, const cuda_transport::DeviceFabric& fabric, int peer) {
  if (peer >= 0) return fabric.message_capacity(protocol, peer);
  switch (protocol) {
    case ring::Protocol::line: return fabric.line_capacity();
    case ring::Protocol::inlined: return fabric.line128_capacity();
    default: return fabric.bulk_capacity();
  }
}

// -1: the schedule is a collective's.
int PeerOf(const schedule::Schedule& schedule) {
  if (!schedule::IsMessage(schedule.collective)) return -1;
  const auto& step = schedule.channels.front().lanes.front().steps.front();
  return std::max(step.reads.front().peer, step.writes.front().peer);
}

// Operands of the step that are strided.
std::size_t StridedOperands(const schedule::Step& step, const StridedSides& strided) {
  const auto is_strided = [&](const schedule::Operand& operand) {
    return (operand.kind == schedule::OperandKind::input && strided.input != nullptr) ||
           (operand.kind == schedule::OperandKind::output && strided.output != nullptr);
  };
  return static_cast<std::size_t>(std::count_if(step.reads.begin(), step.reads.end(), is_strided) +
                                  std::count_if(step.writes.begin(), step.writes.end(), is_strided));
}

// Appends tables to the image of one piece of device memory.
class Pieces {
 public:
  // Returns its offset.
  template <typename T>
  std::size_t Add(const std::vector<T>& values) {
    const std::size_t at = RoundUp(bytes_.size(), cuda_kernels::kTableAlignment);
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
    return at;
  }
  // Pads to the table alignment, so that whole-vector reads do not pass the end.
  std::vector<std::byte>& Padded() { return PaddedTo(RoundUp(bytes_.size(), cuda_kernels::kTableAlignment)); }
  std::vector<std::byte>& PaddedTo(std::size_t bytes) {
    bytes_.resize(bytes);
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

// The channels of a schedule for one launch differ in nothing but their parts of the blocks. Thread blocks share one
// channel instead, because memory is faster if all of them work side by side (Share).
schedule::Schedule Shared(schedule::Schedule schedule) {
  if (schedule.one_launch) schedule.channels.resize(1);
  return schedule;
}

cuda_kernels::SwitchUse SwitchUseOf(const schedule::Step& step) {
  const auto multicast = std::find_if(step.writes.begin(), step.writes.end(), [](const schedule::Operand& write) {
    return write.kind == schedule::OperandKind::multicast;
  });
  const bool sum = step.reads.front().kind == schedule::OperandKind::sum;
  if (multicast == step.writes.end()) return {sum, -1};
  return {sum, static_cast<int>(multicast - step.writes.begin())};
}

bool HasOneStepInEachLane(const schedule::Schedule& schedule) {
  const auto& lanes = schedule.channels.front().lanes;
  return std::all_of(lanes.begin(), lanes.end(), [](const schedule::Lane& lane) { return lane.steps.size() == 1; });
}

}  // namespace

// A lane before its table is written.
struct DeviceProgram::BoundLane {
  cuda_kernels::DeviceLane lane{};
  std::vector<cuda_kernels::DeviceStep> steps;
  std::vector<cuda_kernels::DeviceOperand> operands;
  std::vector<cuda_kernels::DeviceAfter> afters;
  std::vector<std::uint32_t> fills, empties;
};

struct DeviceProgram::Image {
  StridedSides strided;
  std::vector<BoundLane> lanes;
  std::size_t longest_chunk = 0;
  std::size_t staged = 0;  // strided operands of any step that may reduce

  // Puts the steps of all lanes into the first one. REQUIRES: they have no slots, and do not wait for each other.
  void JoinLanes() {
    BoundLane& all = lanes.front();
    for (std::size_t l = 1; l < lanes.size(); ++l) {
      for (cuda_kernels::DeviceStep step : lanes[l].steps) {
        step.operands += static_cast<std::uint32_t>(all.operands.size());
        all.steps.push_back(step);
      }
      all.operands.insert(all.operands.end(), lanes[l].operands.begin(), lanes[l].operands.end());
    }
    lanes.resize(1);
  }

  // The lane with its table, padded (DeviceLane).
  static Pieces PiecesOf(const BoundLane& bound, const cuda_transport::DeviceFabric& fabric) {
    cuda_kernels::DeviceLane lane = bound.lane;
    std::vector<std::uint32_t> numbers = bound.fills;
    numbers.insert(numbers.end(), bound.empties.begin(), bound.empties.end());
    std::vector<std::uint32_t> first_readers;
    for (const std::uint32_t fill : bound.fills) {
      const auto readers = fabric.ReadersOf(fill);
      first_readers.push_back(lane.readers);
      for (std::uint32_t r = 0; r < readers.count; ++r) numbers.push_back(readers.first + r);
      lane.readers += readers.count;
    }
    numbers.insert(numbers.end(), first_readers.begin(), first_readers.end());
    lane.steps = static_cast<std::uint32_t>(bound.steps.size());
    lane.operands = static_cast<std::uint32_t>(bound.operands.size());
    lane.afters = static_cast<std::uint32_t>(bound.afters.size());
    lane.fills = static_cast<std::uint32_t>(bound.fills.size());
    lane.empties = static_cast<std::uint32_t>(bound.empties.size());
    Pieces pieces;
    pieces.Add(std::vector(1, lane));
    pieces.Add(bound.steps);
    pieces.Add(bound.operands);
    pieces.Add(bound.afters);
    pieces.Add(numbers);
    pieces.Padded();
    return pieces;
  }
};

DeviceProgram::DeviceProgram(schedule::Schedule schedule, schedule::Extents extents, schedule::ProtocolConfig config,
                             tuttiDataType_t type, tuttiRedOp_t op, const StridedSides& strided,
                             const CallIdentity& identity, const cuda_transport::DeviceFabric& fabric,
                             cuda_transport::DeviceArena& arena, int first_channel)
    : blocks_of_a_lane_(schedule.one_launch ? static_cast<std::uint32_t>(schedule.channels.size()) : 1),
      schedule_(Shared(std::move(schedule))),
      extents_(std::move(extents)),
      config_(config),
      binding_(schedule_, extents_, config.chunk_bytes) {
  const int peer = PeerOf(schedule_);
  if (peer >= 0 && schedule_.channels.size() > static_cast<std::size_t>(fabric.message_channels(peer))) {
    Throw(tuttiInternalError, "a message to or from rank {} has {} channels, of which there are {}", peer,
          schedule_.channels.size(), fabric.message_channels(peer));
  }
  const std::size_t capacity = CapacityOf(config_.protocol, fabric, peer);
  const bool may_be_longer = config_.protocol == ring::Protocol::bulk && schedule::MayAlwaysRefer(schedule_);
  if (config_.chunk_bytes == 0 || (config_.chunk_bytes > capacity && !may_be_longer)) {
    Throw(tuttiInternalError, "a chunk of {} bytes does not fit into a {} slot of {} bytes on a GPU",
          config_.chunk_bytes, ring::NameOf(config_.protocol), capacity);
  }
  CheckTeam(fabric, strided);
  if (schedule_.one_launch &&
      (schedule_.nranks > static_cast<int>(cuda_kernels::kMostLaunchedTogether) || !HasOneStepInEachLane(schedule_) ||
       strided.input != nullptr || strided.output != nullptr)) {
    Throw(tuttiInternalError, "the kernel cannot run this schedule of {} ranks in one launch", schedule_.nranks);
  }
  Image image{strided, {}};
  for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
    AddChannel(image, static_cast<int>(c), fabric, first_channel);
  }
  lanes_ = static_cast<std::uint32_t>(image.lanes.size());
  if (schedule_.one_launch) image.JoinLanes();
  threads_ = ThreadsFor(config_, strided, (image.longest_chunk + blocks_of_a_lane_ - 1) / blocks_of_a_lane_);

  std::vector<Pieces> lanes;
  std::size_t lane_bytes = 0;
  for (const BoundLane& bound : image.lanes) {
    lanes.push_back(Image::PiecesOf(bound, fabric));
    lane_bytes = std::max(lane_bytes, lanes.back().Padded().size());
  }
  Pieces pieces;
  cuda_kernels::DevicePlan plan{};
  pieces.Add(std::vector(1, plan));
  for (Pieces& lane : lanes) pieces.Add(lane.PaddedTo(lane_bytes));
  lane_vectors_ = static_cast<std::uint32_t>(lane_bytes / cuda_kernels::kVectorBytes);
  const std::size_t vectors = pieces.Padded().size() / cuda_kernels::kVectorBytes;
  if (schedule_.one_launch && vectors > cuda_kernels::kPeerPlanVectors) {
    Throw(tuttiInternalError, "a plan for one launch has {} vectors", vectors);
  }
  std::vector<schedule::Strided> sides;
  for (const schedule::Strided* const side : {strided.input, strided.output}) {
    if (side != nullptr) sides.push_back(*side);
  }
  const auto sides_at = pieces.Add(sides);
  const std::size_t scratch = binding_.scratch_bytes() * schedule_.channels.size();
  const std::size_t staging = lanes_ * image.staged * cuda_kernels::kStagedBytes;
  Log(Subject::select, "a plan takes {} B of device memory for tables, {} B for scratch and {} B for strided operands",
      pieces.Padded().size(), scratch, staging);
  memory_ = arena.Allocate(pieces.Padded().size());

  plan.scratch = scratch > 0 ? arena.Allocate(scratch) : nullptr;
  plan.staged = image.staged;
  plan.staging = staging > 0 ? arena.Allocate(staging) : nullptr;
  const auto* const placed = reinterpret_cast<const schedule::Strided*>(memory_ + sides_at);
  plan.input_strided = strided.input != nullptr ? placed : nullptr;
  plan.output_strided = strided.output != nullptr ? placed + (sides.size() - 1) : nullptr;
  plan.scratch_bytes = binding_.scratch_bytes();
  plan.chunk_bytes = config_.chunk_bytes;
  plan.signature = identity.signature;
  plan.call = identity.call;
  plan.count = identity.count;
  plan.lane_count = lanes_;
  plan.slot_packets = static_cast<std::uint32_t>(fabric.layout().line_capacity() / cuda_kernels::kPacketData);
  plan.divisor = op == tuttiAvg ? schedule_.nranks : 0;
  plan.reducer = cuda_kernels::ReducerOf(type, op);
  plan.element_bytes = static_cast<std::uint8_t>(SizeOf(type));
  plan.protocol = config_.protocol;
  plan.whole_scratch = schedule_.whole_scratch;
  std::memcpy(pieces.Padded().data(), &plan, sizeof plan);
  arena.Write(memory_, pieces.Padded().data(), pieces.Padded().size());
}

void DeviceProgram::CheckTeam(const cuda_transport::DeviceFabric& fabric, const StridedSides& strided) const {
  if (schedule_.team.empty()) return;
  if (!fabric.has_team() || std::ssize(schedule_.channels) > fabric.team_channels() ||
      config_.protocol != ring::Protocol::bulk || config_.chunk_bytes > fabric.team_capacity() ||
      strided.input != nullptr || strided.output != nullptr) {
    Throw(tuttiInternalError, "no switch between the GPUs carries {} slots of {} bytes in {} channels{}",
          ring::NameOf(config_.protocol), config_.chunk_bytes, schedule_.channels.size(),
          strided.input != nullptr || strided.output != nullptr ? " of tensors" : "");
  }
  for (const auto& channel : schedule_.channels) {
    for (const schedule::Lane& lane : channel.lanes) {
      for (const schedule::Step& step : lane.steps) {
        // To a sum, which comes first, a GPU's step adds slots; what it multicasts is a sum or a copy.
        const bool sums = step.reads.front().kind == schedule::OperandKind::sum;
        const bool others_are_slots =
            std::all_of(step.reads.begin() + 1, step.reads.end(),
                        [](const schedule::Operand& read) { return read.kind == schedule::OperandKind::from; });
        if (schedule::UsesTeam(step) && step.reads.size() > 1 && !(sums && others_are_slots)) {
          Throw(tuttiInternalError,
                "a GPU's step adds only slots to a sum of the switch, and multicasts nothing else: {}",
                schedule::ToString(step));
        }
        if (EachRead(step).size() > cuda_kernels::kMoveSources) {
          Throw(tuttiInternalError, "a sum of {} ranks has more reads than a GPU's step", schedule_.team.size());
        }
      }
    }
  }
}

std::vector<schedule::Operand> DeviceProgram::EachRead(const schedule::Step& step) const {
  std::vector<schedule::Operand> reads;
  for (const schedule::Operand& read : step.reads) {
    if (read.kind != schedule::OperandKind::sum) {
      reads.push_back(read);
      continue;
    }
    for (const int q : schedule_.team) reads.push_back({read.kind, static_cast<std::int16_t>(q)});
  }
  return reads;
}

cuda_kernels::DeviceOperand DeviceProgram::Bind(const schedule::Operand& operand, bool written, int channel,
                                                const cuda_transport::DeviceFabric& fabric, int fabric_channel) const {
  cuda_kernels::DeviceOperand bound{operand.kind, operand.scaled, 0, 0, 0};
  const int by = fabric_channel + operand.connection;
  // A network carries bulk slots alone.
  const auto protocol = [&] { return fabric.by_network(operand.peer) ? ring::Protocol::bulk : config_.protocol; };
  switch (operand.kind) {
    case schedule::OperandKind::to: bound.end = fabric.To(by, protocol(), operand.peer); break;
    case schedule::OperandKind::from: bound.end = fabric.From(by, protocol(), operand.peer); break;
    case schedule::OperandKind::post:
      bound.end = written ? fabric.Post(fabric_channel, config_.protocol)
                          : fabric.PostOf(fabric_channel, config_.protocol, operand.peer);
      break;
    case schedule::OperandKind::contribution: bound.end = fabric.ContributionTo(fabric_channel, operand.peer); break;
    case schedule::OperandKind::sum: bound.end = fabric.ContributionOf(fabric_channel, operand.peer); break;
    case schedule::OperandKind::multicast:
      bound.end = written ? fabric.Multicast(fabric_channel) : fabric.MulticastOf(fabric_channel, operand.peer);
      break;
    default:
      bound.offset = binding_.OffsetOf(operand, channel);
      bound.end = operand.peer == -1 ? cuda_kernels::kOwnMemory : static_cast<std::uint32_t>(operand.peer);
  }
  return bound;
}

DeviceProgram::Traffic& DeviceProgram::TrafficWith(const schedule::Operand& slot,
                                                   const cuda_transport::DeviceFabric& fabric, int fabric_channel) {
  if (slot.kind == schedule::OperandKind::post || schedule::IsOfTeam(slot.kind) || !fabric.by_network(slot.peer)) {
    return on_host_;
  }
  network_rings_.insert({fabric_channel + slot.connection, slot.peer});
  return by_network_;
}

cuda_kernels::DeviceStep DeviceProgram::AddStep(BoundLane& lane, const schedule::Step& step, int channel,
                                                const cuda_transport::DeviceFabric& fabric, int fabric_channel) {
  cuda_kernels::DeviceStep bound{};
  bound.bytes = binding_.BytesOf(step, channel);
  bound.chunks = binding_.ChunksOf(step, channel);
  bound.operands = static_cast<std::uint32_t>(lane.operands.size());
  bound.after = static_cast<std::uint32_t>(lane.afters.size());
  bound.referable = schedule::ReferableOf(step);
  const std::vector<schedule::Operand> reads = EachRead(step);
  bound.reads = static_cast<std::uint8_t>(reads.size());
  bound.in_switch = SwitchUseOf(step).byte();
  bound.writes = static_cast<std::uint8_t>(step.writes.size());
  bound.afters = static_cast<std::uint8_t>(step.after.size());
  bound.arithmetic = step.reads.size() > 1;
  bound.final = step.final;
  for (const schedule::Operand& read : reads) {
    auto& operand = lane.operands.emplace_back(Bind(read, false, channel, fabric, fabric_channel));
    if (!schedule::IsSlot(read.kind)) continue;
    TrafficWith(read, fabric, fabric_channel).received += bound.bytes;
    operand.local = PlaceIn(lane.empties, operand.end);
  }
  std::size_t destinations = 0;
  for (const schedule::Operand& write : step.writes) {
    auto& operand = lane.operands.emplace_back(Bind(write, true, channel, fabric, fabric_channel));
    const bool posts = write.kind == schedule::OperandKind::post || write.kind == schedule::OperandKind::multicast;
    const auto places = static_cast<std::size_t>(posts ? fabric.readers_of_posts() : 1);
    destinations += places;
    if (!schedule::IsSlot(write.kind)) continue;
    TrafficWith(write, fabric, fabric_channel).sent += bound.bytes * places;
    operand.local = PlaceIn(lane.fills, operand.end);
  }
  if (config_.protocol != ring::Protocol::bulk && destinations > cuda_kernels::kMoveDestinations) {
    Throw(tuttiInternalError, "a step writes to {} places, but a GPU's step has room for {}", destinations,
          cuda_kernels::kMoveDestinations);
  }
  lane.steps.push_back(bound);
  return bound;
}

void DeviceProgram::AddChannel(Image& image, int channel, const cuda_transport::DeviceFabric& fabric,
                               int first_channel) {
  const auto& lanes = schedule_.channels[static_cast<std::size_t>(channel)].lanes;
  const int fabric_channel = first_channel + channel * schedule_.connections;
  const std::size_t first_lane = image.lanes.size();
  image.lanes.resize(first_lane + lanes.size());
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    BoundLane& lane = image.lanes[first_lane + l];
    lane.lane.channel = static_cast<std::uint32_t>(channel);
    for (const schedule::Step& step : lanes[l].steps) {
      const cuda_kernels::DeviceStep bound = AddStep(lane, step, channel, fabric, fabric_channel);
      const std::size_t strided = StridedOperands(step, image.strided);
      lane.steps.back().strided = strided > 0;
      if (schedule::IsReducing(schedule_.collective)) image.staged = std::max(image.staged, strided);
      for (const schedule::After& after : step.after) {
        const std::size_t other = first_lane + static_cast<std::size_t>(after.lane);
        lane.afters.push_back({static_cast<std::uint32_t>(other), static_cast<std::uint32_t>(after.step),
                               static_cast<std::uint32_t>(lanes[static_cast<std::size_t>(after.lane)].steps.size())});
      }
      lane.lane.chunks = std::max(lane.lane.chunks, bound.chunks);
      image.longest_chunk = std::max(image.longest_chunk, std::min<std::size_t>(bound.bytes, config_.chunk_bytes));
    }
  }
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (const cuda_kernels::DeviceAfter& after : image.lanes[first_lane + l].afters) {
      image.lanes[after.lane].lane.awaited = true;
      image.lanes[after.lane].steps[after.step].awaited = true;
    }
  }
}

}  // namespace tutti::cuda
