#include "src/device/plans.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "algorithms/builders/records.h"
#include "algorithms/schedule/binding.h"
#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers/datatype.h"
#include "executors/cuda/kernels/element.h"
#include "selection/cost_model/host_machine.h"
#include "selection/cost_model/machine_of_system.h"
#include "src/bootstrap/rank_zero.h"
#include "src/device/gpu_slots.h"

namespace tutti::device {
namespace {

// An A100's, for pricing only, if the driver does not report it.
constexpr double kUnknownMemoryBandwidth = 1555;  // GB/s
constexpr int kMajorToSm = 10;

double MemoryBandwidth(const cuda_transport::CudaDevice& device) {
  const double clock_khz = device.Attribute(cuda_transport::kCuMemoryClockKhz),
               bits = device.Attribute(cuda_transport::kCuMemoryBusBits);
  constexpr double kTransfersPerClock = 2, kBitsPerByte = 8, kKhzBytesPerGB = 1e6;
  const double bandwidth = clock_khz * kTransfersPerClock * bits / kBitsPerByte / kKhzBytesPerGB;
  return bandwidth > 0 ? bandwidth : kUnknownMemoryBandwidth;
}

// For several hosts. If the topology lacks GPUs or NICs, or hosts differ, the network between hosts matters more than
// the links inside them, so GPUs are priced as if they were processors.
cost_model::Machine MachineOfHosts(const DevicePlanContext& context, const topology::System& system) {
  const auto& where = context.tuning.where;
  try {
    if (const auto why = WhyNotAlike(context.tuning); !why.empty()) Throw(tuttiInvalidArgument, "{}", why);
    return cost_model::MachineOfSystem(system, where.nodes(), context.gpus, {cuda_kernels::kMaxThreads, true},
                                       context.direct);
  } catch (const Error& error) {
    Log(Subject::select, "GPUs of several hosts are priced like processors of several hosts: {}", error.what());
  }
  auto costs = cost_model::DefaultHostCosts(1);
  costs.costs.bulk_between_nodes = true;
  return cost_model::HostMachine(costs, where, context.network_costs);
}

// The machine that prices are computed on. A topology without a GPU for every rank is no reason to fail.
cost_model::Machine MachineFor(const DevicePlanContext& context, const topology::System& system) {
  const int nranks = context.tuning.nranks;
  if (!context.tuning.one_host) return MachineOfHosts(context, system);
  if (!context.fabric->one_device()) {
    try {
      return cost_model::MachineOfSystem(system, 1, context.gpus, {cuda_kernels::kMaxThreads, true});
    } catch (const Error& error) {
      Log(Subject::select, "GPUs are priced as one: {}", error.what());
    }
  }
  const auto& device = *context.device;
  const int sm = device.Attribute(cuda_transport::kCuMajor) * kMajorToSm + device.Attribute(cuda_transport::kCuMinor);
  return cost_model::MachineOfOneGpu(nranks, sm, MemoryBandwidth(device), {cuda_kernels::kMaxThreads});
}

// Whether an NVSwitch adds this as numerics.md promises. PTX has no products, and its minimum and maximum of floats drop NaN.
bool AddsInSwitch(tuttiDataType_t type, tuttiRedOp_t op) {
  return cuda_kernels::VisitCodec(type, [op](auto codec) {
    return (op == tuttiSum && cuda_kernels::kAddedInSwitch<decltype(codec)>) ||
           (op == tuttiAvg && cuda_kernels::kAveragedInSwitch<decltype(codec)>);
  });
}

// A GPU's plan contains a tensor's addresses; on the host, each call passes them.
void AddPlaces(const plan::Tensors& tensors, plan::PlanKey& key) {
  for (const schedule::Strided* const side : {&tensors.input, &tensors.output}) {
    key.further.push_back(side->run_bytes());
    for (const auto& dim : side->outer()) {
      key.further.push_back(dim.size.value());
      key.further.push_back(dim.stride);
    }
    key.further.push_back(side->outer().size());  // last, so that keys with different counts differ
  }
}

cuda::StridedSides SidesOf(const plan::Operation& operation) {
  if (operation.tensors == nullptr) return {};
  const auto side = [](const schedule::Strided& strided) { return strided.dense() ? nullptr : &strided; };
  return {side(operation.tensors->input), side(operation.tensors->output)};
}

constexpr char kTable[] = "table", kSlotsTable[] = "slots_table", kMessages[] = "messages", kInSwitch[] = "in_switch",
               kRings[] = "rings";

// Ranks, one ring after the other.
std::vector<unsigned> FlatRings(const schedule::RankLayout& rank_layout) {
  std::vector<unsigned> flat;
  for (const auto& ring : rank_layout.rings) flat.insert(flat.end(), ring.begin(), ring.end());
  return flat;
}

// One host's layout with these rings; empty, as everywhere on one host, if there are none.
schedule::RankLayout LayoutWith(const JsonValue& shipped, int nranks) {
  const auto flat = shipped.Wholes(kRings, 0, static_cast<std::uint64_t>(nranks) - 1);
  if (flat.empty()) return {};
  schedule::RankLayout layout = schedule::ArrangeEvenly(nranks, 1);
  for (std::size_t i = 0; i < flat.size(); ++i) {
    if (i % static_cast<std::size_t>(nranks) == 0) layout.rings.emplace_back();
    layout.rings.back().push_back(static_cast<int>(flat[i]));
  }
  for (const auto& ring : layout.rings) {
    if (std::set<int>(ring.begin(), ring.end()).size() != static_cast<std::size_t>(nranks))
      shipped.Refuse("a ring does not visit every rank once");
  }
  return layout;
}

}  // namespace

void DevicePlanEntry::AddBytes(tuttiTransport_t network, tuttiCounters_t& counters) const {
  const auto add = [&](tuttiTransport_t transport, const cuda::DeviceProgram::Traffic& each) {
    counters.bytesSent[transport][choice.candidate.algorithm] += operations * each.sent;
    counters.bytesReceived[transport][choice.candidate.algorithm] += operations * each.received;
  };
  add(tuttiTransportP2p, program.on_host());
  if (by_engines > 0) {
    add(tuttiTransportP2p, program.on_host());  // the second barrier
    add(tuttiTransportP2p, {by_engines, by_engines});
  }
  add(network, program.by_network());
}

DevicePlans::DevicePlans(DevicePlanContext context, const topology::System& system, int rank,
                         const AllGather& all_gather)
    : PlanTable(context.transport), context_(std::move(context)), rank_(rank) {
  auto& where = context_.tuning.where;
  const auto shipped = bootstrap::FromRankZero(rank, all_gather, [&] {
    const cost_model::Machine machine = MachineFor(context_, system);
    if (where.node_of.empty() && !machine.rank_layout().rings.empty()) where = machine.rank_layout();
    // The price needs the switch's links, which a topology may lack.
    context_.tuning.in_switch = context_.tuning.in_switch && machine.has_teams();
    tuner::Tuner(machine, SlotsAlone()).Complete(slots_table_, 1);
    if (HasMore()) tuner::Tuner(machine, context_.tuning).Complete(table_, 1);
    return nlohmann::json{{kInSwitch, context_.tuning.in_switch},
                          {kRings, FlatRings(context_.tuning.one_host ? where : schedule::RankLayout())},
                          {kTable, HasMore() ? table_.ToJson(context_.tuning) : ""},
                          {kMessages, tuner::MessageTable(machine, context_.tuning).ToJson()},
                          {kSlotsTable, slots_table_.ToJson(SlotsAlone())}};
  });
  context_.tuning.in_switch = shipped.root().Flag(kInSwitch, false);
  if (where.node_of.empty()) where = LayoutWith(shipped.root(), context_.tuning.nranks);
  if (context_.tuning.one_host && !where.rings.empty() && rank_ == 0) {
    std::vector<std::string> rings;
    for (const auto& ring : where.rings) rings.push_back(fmt::format("{}", fmt::join(ring, ",")));
    Log(Subject::init, "rings of GPUs follow the host's links: {}", fmt::join(rings, " | "));
  }
  slots_tuning_ = SlotsAlone();
  const auto table_of = [&](const char* name, const cost_model::TuningContext& tuning) {
    return tuner::SelectionTable::FromJson(shipped.root().RawText(name), "rank 0's table for GPUs", tuning);
  };
  slots_table_ = table_of(kSlotsTable, slots_tuning_);
  messages_ = tuner::MessageTable::FromJson(shipped.root().RawText(kMessages), "rank 0's table for messages of GPUs",
                                            context_.tuning);
  table_ = HasMore() ? table_of(kTable, context_.tuning) : slots_table_;
  if (context_.external == nullptr) return;
  pricing_ = std::make_unique<plan::Pricing>(MachineFor(context_, system), context_.tuning);
  slots_pricing_ = std::make_unique<plan::Pricing>(MachineFor(context_, system), slots_tuning_);
}

cost_model::TuningContext DevicePlans::SlotsAlone() const {
  cost_model::TuningContext tuning = context_.tuning;
  tuning.one_launch = tuning.in_switch = false;
  return tuning;
}

DevicePlanEntry& DevicePlans::Find(const plan::Operation& operation, std::uint64_t packed,
                                   const EngineCopies* by_engines) {
  plan::PlanKey key = plan::KeyOf(operation, packed);
  if (operation.tensors != nullptr) AddPlaces(*operation.tensors, key);
  if (by_engines != nullptr) key.further.push_back(by_engines->bytes);  // no other plain call has further values
  return PlanTable::Find(std::move(key), [&] { return Make(operation, packed, by_engines); });
}

double DevicePlans::Microseconds(const topology::System& system, const cost_model::Kind& kind,
                                 std::size_t bytes) const {
  const cost_model::Machine machine = MachineFor(context_, system);
  return tuner::Tuner(machine, context_.tuning).Microseconds(table_.At(kind, bytes).candidate, kind, bytes);
}

std::vector<schedule::Schedule> DevicePlans::SchedulesOfAll(const plan::Operation& operation,
                                                            const cost_model::Candidate& candidate) const {
  std::vector<schedule::Schedule> all;
  for (int rank = 0; rank < context_.tuning.nranks; ++rank) {
    all.push_back(plan::BuiltSchedule(operation, candidate, context_.tuning, rank));
  }
  return all;
}

// Adjusts the candidate until all ranks of a GPU have room for it at the same time and its chunks fit the slots that
// carry data; returns its schedule. Leaves the user's settings unchanged: the launch refuses them with the numbers.
schedule::Schedule DevicePlans::Fitted(const plan::Operation& operation, cost_model::Candidate& candidate) const {
  const auto& tuning = context_.tuning;
  auto schedules = SchedulesOfAll(operation, candidate);
  const int most_channels = cost_model::MostChannels(candidate.algorithm, tuning);
  const auto connected = [&] {
    const schedule::Schedule& schedule = schedules.front();
    return static_cast<int>(schedule.channels.size()) * schedule.connections <= most_channels;
  };
  const auto has_room = [&] {
    return tuning.forced.channels != 0 || std::ranges::all_of(schedules, [&](const schedule::Schedule& schedule) {
             return schedule::LanesOf(schedule) <= static_cast<std::size_t>(tuning.most_lanes);
           });
  };
  while (candidate.channels > 1 && !(connected() && has_room())) {
    --candidate.channels;
    schedules = SchedulesOfAll(operation, candidate);
  }
  // A contribution that is scaled first does not exist in memory, and a tensor's chunk is not contiguous.
  const bool may_refer = !operation.scaled && operation.tensors == nullptr &&
                         std::all_of(schedules.begin(), schedules.end(), schedule::MayAlwaysRefer);
  auto& config = candidate.config;
  if (schedules.front().one_launch) {  // nothing to overlap
    const std::size_t forced = tuning.forced.chunk_bytes;
    config = {ring::Protocol::bulk, forced != 0 ? forced : cost_model::kLongestChunk};
  }
  config.chunk_bytes = std::min(config.chunk_bytes, cost_model::ChunkCapacity(config.protocol, tuning, may_refer));
  if (!schedules.front().team.empty()) {
    config.chunk_bytes = std::min(config.chunk_bytes, context_.fabric->team_capacity());
  }
  return std::move(schedules[static_cast<std::size_t>(rank_)]);
}

// Plans calls on GPUs.
class DevicePlans::DevicePlanner final : public plan::CallPlanner {
 public:
  explicit DevicePlanner(const DevicePlans& plans) : plans_(plans) {}

  int rank() const override { return plans_.rank_; }
  const cost_model::TuningContext& tuning() const override { return plans_.context_.tuning; }
  MessagePlan PlanMessage(int from, int to, std::size_t bytes) const override {
    const auto way = plans_.messages_.At(tuning(), from, to, bytes);
    return {way.channels, tuning().max_channels, way.config};
  }
  CollectivePlan PlanCollective(const plan::Operation& asked, const plan::Operation& operation,
                                const cost_model::Kind& kind, std::size_t bytes) const override {
    // Only blocks of equal lengths lie at the same offsets in all ranks' buffers, and only a rank knows its scalar.
    const bool may_share = tuning().one_launch && operation.plain() && !operation.scaled;
    // A switch adds some types, and knows no tensors.
    const bool may_switch = tuning().in_switch && operation.plain() && operation.tensors == nullptr &&
                            (!schedule::IsReducing(kind.collective) || AddsInSwitch(operation.type, operation.op));
    auto choice = may_share || may_switch
                      ? plan::ChooseFrom(plans_.table_, "", tuning(), kind, bytes)
                      : plan::ChooseFrom(plans_.slots_table_, "", plans_.slots_tuning_, kind, bytes);
    if (const auto* const external = plans_.context_.external) {
      auto& pricing = may_share || may_switch ? *plans_.pricing_ : *plans_.slots_pricing_;
      choice = external->Choose(pricing, asked, kind, bytes, std::move(choice));
    }
    auto schedule = plans_.Fitted(operation, choice.candidate);
    return {std::move(choice), std::move(schedule)};
  }

 private:
  const DevicePlans& plans_;
};

std::unique_ptr<DevicePlanEntry> DevicePlans::Make(const plan::Operation& asked, std::uint64_t packed,
                                                   const EngineCopies* by_engines) const {
  const plan::Operation barrier = plan::Barrier();
  const plan::Operation& run = by_engines != nullptr ? barrier : asked;
  const plan::Operation operation = plan::Scheduled(run);
  auto planned = plan::PlanCall(run, DevicePlanner(*this));
  if (by_engines != nullptr) planned.choice.reason = "copy engines, between two barriers by these kernels";
  const cuda::CallIdentity identity{plan::SignatureOf(asked, planned, context_.external != nullptr), packed,
                                    asked.count};
  Log(Subject::select, "rank {}: on the GPU: {}", rank_, planned.Describe(packed, asked.count));
  auto plan = std::unique_ptr<DevicePlanEntry>(
      new DevicePlanEntry{{std::move(planned.choice), plan::BytesUsed(planned.extents)},
                          cuda::DeviceProgram(std::move(planned.schedule), std::move(planned.extents), planned.config,
                                              operation.type, operation.op, SidesOf(operation), identity,
                                              *context_.fabric, *context_.arena, planned.first_channel),
                          by_engines != nullptr ? by_engines->bytes : 0});
  const auto& rings = plan->program.network_rings();
  if (!rings.empty()) context_.fabric->across()->Pin(rings);
  for (const auto& [channel, peer] : rings) context_.network->NeedPolled(peer, channel);
  return plan;
}

}  // namespace tutti::device
