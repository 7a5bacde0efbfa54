#include "src/device/device_side.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "base/all_gather.h"
#include "base/log.h"
#include "base/numbers/datatype.h"
#include "base/numbers/rounding.h"
#include "src/device/failure_detector.h"
#include "src/device/gpu_direct.h"
#include "src/device/gpu_slots.h"
#include "src/init/near_nics.h"
#include "src/memory/device_buffers.h"
#include "src/plan/planning.h"
#include "transports/cuda/line128_support.h"
#include "transports/shm/process_register.h"

namespace tutti::device {
namespace {

// For the collectives' queue: more than any schedule that fits a GPU.
constexpr std::size_t kMostLanes = 1024;
// Of a rank's messages in one launch: as many as a large all-reduce takes, so that the program's own kernels and those of
// another communicator have room beside them. They fill a link each way three times.
constexpr std::uint32_t kMostMessageBlocks = 96;

// Offsets in a rank's state; the queues are in DeviceRank's order.
struct StateLayout {
  explicit StateLayout(int nranks)
      : queues(1 + 2 * static_cast<std::size_t>(nranks)),
        queues_at(sizeof(cuda_kernels::DeviceRank)),
        lanes_at(queues_at + queues * sizeof(cuda_kernels::DeviceQueue)),
        bytes(lanes_at + kMostLanes * sizeof(std::uint64_t)) {}

  std::size_t queues, queues_at, lanes_at, bytes;

  static std::size_t Queue(int nranks, int peer, bool sends) {
    return peer < 0 ? 0 : 1 + static_cast<std::size_t>(sends ? peer : nranks + peer);
  }
};
static_assert(sizeof(cuda_kernels::DeviceRank) % alignof(cuda_kernels::DeviceQueue) == 0 &&
              sizeof(cuda_kernels::DeviceQueue) % alignof(std::uint64_t) == 0);

// The kernels of a device serve all communicators of the process.
std::shared_ptr<const cuda::KernelModule> KernelsOf(const cuda_transport::CudaDevice& device) {
  struct Shared {
    cuda_transport::CudaDevice device;
    cuda::KernelModule kernels;
    explicit Shared(const cuda_transport::CudaDevice& like) : device(like.driver(), like.ordinal()), kernels(device) {}
  };
  struct Register {
    std::mutex mutex;
    std::map<int, std::weak_ptr<Shared>> by_ordinal;
  };
  static auto* const all = new Register;  // never destroyed: communicators may outlive the end of main()
  const std::lock_guard lock(all->mutex);
  auto& entry = all->by_ordinal[device.ordinal()];
  auto shared = entry.lock();
  if (shared == nullptr) {
    shared = std::make_shared<Shared>(device);
    entry = shared;
  }
  return {shared, &shared->kernels};
}

}  // namespace

std::unique_ptr<DeviceSide> DeviceSide::Make(const DeviceSetup& setup, const init::Meeting& meeting, std::string* why) {
  // All ranks must know of a fault of any rank's device before any continues.
  std::string mine;
  std::shared_ptr<const cuda::KernelModule> kernels;  // keeps the module loaded until the constructor asks for it again
  if (const auto* const driver = cuda_transport::LoadedCudaDriver(&mine)) {
    mine = cuda::WhyNoKernels(*driver);
    try {
      if (mine.empty()) kernels = KernelsOf(cuda_transport::CudaDevice(*driver, setup.device));
    } catch (const Error& error) {
      if (error.code() == tuttiInvalidArgument) throw;  // the user's
      mine = error.what();
    }
  }
  const auto all = meeting.all_gather(std::as_bytes(std::span(mine)));
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    *why = fmt::format("rank {}: {}", r, std::string(reinterpret_cast<const char*>(all[r].data()), all[r].size()));
    return nullptr;
  }
  std::unique_ptr<DeviceSide> side(new DeviceSide(setup, meeting));
  // From here on, a failure ends the side in order.
  side->failure_detector_ = std::make_unique<DeviceFailureDetector>(*side, meeting, setup.failure, setup.fail);
  return side;
}

DeviceSide::DeviceSide(const DeviceSetup& setup, const init::Meeting& meeting)
    : rank_(meeting.rank),
      nranks_(meeting.nranks()),
      zero_copy_(meeting.settings.zero_copy),
      copy_engines_(meeting.settings.copy_engine) {
  const auto& settings = meeting.settings;
  const auto& all_gather = meeting.all_gather;
  const auto& driver = *cuda_transport::LoadedCudaDriver();
  device_ = std::make_unique<cuda_transport::CudaDevice>(driver, setup.device);
  kernels_ = KernelsOf(*device_);
  // Blocks and ranks of the GPU with the least room for each.
  struct Room {
    cuda_transport::CuUuid uuid;
    std::uint32_t blocks;
    bool zero_copy;
    std::uint64_t bus_id;
  };
  const auto rooms = GatherValues(
      all_gather, Room{device_->uuid(), kernels_->resident_blocks(), zero_copy_, memory::BusIdOf(device_->ordinal())});
  std::uint32_t blocks = rooms.front().blocks, sharing = 1;
  for (const auto& room : rooms) {
    blocks = std::min(blocks, room.blocks);
    std::uint32_t ranks = 0;
    for (const auto& other : rooms) ranks += std::memcmp(&other.uuid, &room.uuid, sizeof room.uuid) == 0;
    sharing = std::max(sharing, ranks);
  }
  DevicePlanContext context;
  context.tuning = setup.tuning;
  if (context.tuning.domains) {  // of processors
    context.tuning.domains = false;
    context.tuning.where = {};
  }
  context.tuning.programs = {};
  const bool one_host = meeting.one_host();
  if (!one_host) context.tuning.where.rings = schedule::TurnedRings(context.tuning.where);  // as they are priced
  const bool one_device = one_host && sharing == static_cast<std::uint32_t>(nranks_);
  cost_model::FitToGpus(static_cast<int>(blocks), static_cast<int>(sharing), one_device, context.tuning);

  std::vector<std::uint64_t> bus_ids;
  for (const auto& room : rooms) bus_ids.push_back(room.bus_id);
  context.gpus = init::GpusOfRanks(*setup.system, meeting.hosts.host_of[0], meeting.hosts.RanksWith(0), bus_ids);
  const init::NearNics nics = init::NicsNearGpus(meeting, *setup.system, bus_ids);
  const auto* const network = init::ChooseNetwork(meeting);
  bool direct = false;
  if (!one_host) {
    const std::string why_not_direct = WhyNotDirect(*device_, nics, *network, settings);
    direct = why_not_direct.empty();
    const auto decided = GatherValues(all_gather, std::uint8_t{direct});
    // Priced as they run: from GPU to NIC only if all ranks' data go so.
    context.direct = std::ranges::find(decided, 0) == decided.end();
    Log(Subject::init, "rank {}: data between hosts lie in {}{}", rank_,
        direct ? "the GPU's memory (GPUDirect)" : "pinned host memory: ", why_not_direct);
  }

  const bool p2p = settings.gpu_p2p;
  const std::string no_lines = cuda_transport::WhyNoLines128(*device_, rank_, meeting.hosts, p2p, all_gather);
  shm_ = std::make_unique<shm::Fabric>(rank_, meeting.hosts, 1, settings, all_gather, meeting.deadline);
  sites_ = std::make_unique<diagnostics::CallSites>(control());
  fabric_ = std::make_unique<cuda_transport::DeviceFabric>(
      *device_, context.tuning.max_channels, *shm_, p2p,
      ShortSlots(meeting.hosts.MostRanks(), one_host, no_lines.empty()),
      cuda_transport::DeviceFabric::TeamWish{settings.nvls,
                                             cuda_transport::TeamChannels(context.tuning.max_channels, one_host),
                                             WhyNoSwitch(context.tuning)},
      cuda_transport::PinnedRings::Place{nics.memory_node, direct, static_cast<std::size_t>(settings.pin_mib) << 20},
      static_cast<std::uint32_t>(settings.count_from), all_gather, meeting.deadline);
  if (setup.tuning.forced.protocol == ring::Protocol::inlined) cuda_transport::RequireLines128(no_lines, *fabric_);
  const bool refer = fabric_->one_device() && fabric_->one_process() &&
                     std::all_of(rooms.begin(), rooms.end(), [](const Room& room) { return room.zero_copy; });
  TakeSlots(fabric_->layout(), fabric_->hosts_reach(), fabric_->bulk_capacity(), refer, fabric_->has_team(),
            context.tuning);
  most_message_blocks_ = std::min(kMostMessageBlocks, static_cast<std::uint32_t>(context.tuning.most_lanes));
  context.tuning.one_launch = refer && nranks_ <= static_cast<int>(cuda_kernels::kMostLaunchedTogether);
  if (!one_host) {
    network_ = init::ConnectHosts(meeting, network, *shm_, setup.key, nics.names, 1,
                                  [this](int peer) { return fabric_->across()->With(peer); });
    context.network_costs = setup.network_costs;
  }
  context.external = setup.external;
  context.network = network_.engine.get();
  context.transport = network_.transport();
  context.device = device_.get();
  context.fabric = fabric_.get();
  arena_ = std::make_unique<cuda_transport::DeviceArena>(*device_);
  context.arena = arena_.get();
  plans_ = std::make_unique<DevicePlans>(std::move(context), *setup.system, rank_, all_gather);
  windows_ = std::make_unique<DeviceWindows>(*device_, *shm_);
  registered_ = std::make_unique<memory::RegisteredBuffers>(*device_, *shm_, windows_->table(),
                                                            static_cast<std::uint16_t>(DeviceWindows::kMostWindows),
                                                            all_gather, meeting.deadline);
  MakeState(static_cast<std::uint64_t>(settings.count_from), settings.hold);
  signals_ = std::make_unique<DeviceSignals>(*device_, *fabric_, *kernels_,
                                             reinterpret_cast<cuda_kernels::DeviceRank*>(state_.data()), nranks_);
  JoinLaunchGroup(setup.processor_each, all_gather);
  if (network_.engine != nullptr) {
    proxy_ = std::make_unique<DeviceProxy>(*shm_, *network_.engine, nics.memory_node, [this] { return MayRun(); });
  }
}

void DeviceSide::MakeState(std::uint64_t count_from, bool holds) {
  const auto& driver = device_->driver();
  const StateLayout layout(nranks_);
  state_ = cuda_transport::CudaMemory::OnDevice(driver, device_->context(), layout.bytes);
  constexpr std::size_t kAbortAt = RoundUp(sizeof(cuda_kernels::DeviceProgress), ring::kCacheLine);
  constexpr std::size_t kDoneAt = kAbortAt + ring::kCacheLine;
  pinned_ =
      cuda_transport::CudaMemory::Pinned(driver, device_->context(), kDoneAt + layout.queues * sizeof(std::uint64_t));
  std::memset(pinned_.data(), 0, pinned_.bytes());
  progress_ = reinterpret_cast<cuda_kernels::DeviceProgress*>(pinned_.data());
  abort_ = reinterpret_cast<std::uint32_t*>(pinned_.data() + kAbortAt);
  done_ = reinterpret_cast<std::uint64_t*>(pinned_.data() + kDoneAt);
  constexpr std::size_t kBarrierBytes = 2 * kBarrierPart;
  barrier_ = cuda_transport::CudaMemory::OnDevice(driver, device_->context(), kBarrierBytes);

  cuda_kernels::DeviceRank state{};
  state.fills = fabric_->fills();
  state.empties = fabric_->empties();
  state.readers = fabric_->readers();
  state.queues = reinterpret_cast<cuda_kernels::DeviceQueue*>(state_.data() + layout.queues_at);
  state.windows = windows_->table();
  state.abort = abort_;
  state.done = done_;
  state.progress = progress_;
  state.nranks = nranks_;
  state.wide = !fabric_->one_device();
  state.one_process = fabric_->one_process();
  state.holds = holds;
  cuda_transport::SideStream side(driver, device_->context());
  side.Zero(state_.data(), state_.bytes());
  side.Zero(barrier_.data(), barrier_.bytes());
  side.Copy(state_.data(), &state, sizeof state);
  std::vector<cuda_kernels::DeviceQueue> queues(layout.queues);
  for (std::size_t q = 0; q < queues.size(); ++q) {
    queues[q].sequence = done_[q] = count_from;
    queues[q].lanes = q == 0 ? kMostLanes : 0;  // a message's lanes do not wait for each other
  }
  enqueued_ = count_from * queues.size();
  side.Copy(state.queues, queues.data(), queues.size() * sizeof queues[0]);
}

// The lowest rank of the process on this GPU makes the launch group and offers it to the others.
void DeviceSide::JoinLaunchGroup(bool processor_each, const AllGather& all_gather) {
  const auto& members = fabric_->fused();
  const int maker = members.front();
  if (maker == rank_) launch_group_ = std::make_shared<LaunchGroup>(members, kernels_, processor_each);
  std::optional<shm::Offer> offer;
  if (maker == rank_) offer.emplace(rank_, launch_group_);
  const auto keys = GatherValues(all_gather, offer ? offer->key() : shm::RegisterKey{});
  if (maker != rank_) {
    launch_group_ = shm::FindOffer<LaunchGroup>(keys[static_cast<std::size_t>(maker)], maker);
    if (launch_group_ == nullptr)
      Throw(tuttiRemoteError, "rank {} of this process left while the ranks connected their GPUs", maker);
  }
  all_gather({});  // the offer stands until every rank has taken it
}

DeviceSide::~DeviceSide() {
  failure_detector_.reset();
  // Long enough for any kernel to see the stop request.
  constexpr std::chrono::seconds kToStop{5};
  if (!AwaitIdle(kToStop)) Release();
  const bool idle = AwaitIdle(kToStop);
  // A graph's kernel whose peers have died waits on without any event. It polls the abort word every millisecond.
  constexpr std::chrono::milliseconds kToSeeAbort{20};
  if (launch_group_->captured() || signals_->captured()) {
    Release();
    std::this_thread::sleep_for(kToSeeAbort);
  }
  proxy_.reset();
  init::Leave(*shm_, network_);
  // Other processes' kernels may still write into our memory. Normally they leave soon, too.
  constexpr std::chrono::seconds kToLeave{1};
  const auto deadline = Deadline::After(kToLeave);
  const auto others_use_it = [&] {
    for (const int r : shm_->local()) {
      const bool elsewhere = r != rank_ && !shm_->same_process(r);
      if (elsewhere && shm_->control(r).state.load(std::memory_order_acquire) == ring::RankState::alive) return true;
    }
    return false;
  };
  bool used = others_use_it();
  while (used && !deadline.Passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    used = others_use_it();
  }
  if (used || !idle) fabric_->Abandon();
}

std::uint64_t DeviceSide::Done(int peer, bool sends) const {
  return std::atomic_ref(done_[StateLayout::Queue(nranks_, peer, sends)]).load(std::memory_order_acquire);
}

// A call refused after Prepare() counts as one that may run forever: its proxy keeps looking occasionally.
bool DeviceSide::MayRun() const {
  const auto state = shm_->control(rank_).state.load(std::memory_order_acquire);
  if (state == ring::RankState::failed || state == ring::RankState::stopped) return false;
  if (launch_group_->captured() || signals_->MayRun()) return true;
  std::uint64_t done = 0;
  for (std::size_t queue = 0; queue < StateLayout(nranks_).queues; ++queue) {
    done += std::atomic_ref(done_[queue]).load(std::memory_order_acquire);
  }
  return done < enqueued_.load(std::memory_order_acquire);
}

void DeviceSide::Stop() {
  std::uint32_t none = 0;  // not in the place of a release
  std::atomic_ref(*abort_).compare_exchange_strong(none, cuda_kernels::kStopKernels, std::memory_order_release,
                                                   std::memory_order_relaxed);
}

void DeviceSide::Release() { std::atomic_ref(*abort_).store(cuda_kernels::kReleaseKernels, std::memory_order_release); }

// Does nothing while kernels or graphs use plans: the cache then keeps growing.
void DeviceSide::TrimPlans() {
  constexpr std::chrono::milliseconds kPatience{100};
  if (!plans_->full() || launch_group_->captured() || !AwaitIdle(kPatience)) return;
  plans_->Forget();
}

DevicePart DeviceSide::Prepare(std::span<const plan::Operation* const> operations, cuda_transport::CuStream stream,
                               std::vector<cuda_transport::CuStream> others) {
  TrimPlans();
  registered_->Answer();
  windows_->CloseRetired();
  DevicePart part;
  part.rank = rank_;
  part.stream = stream;
  part.plans = arena_.get();
  part.most_message_blocks = most_message_blocks_;
  part.other_streams = std::move(others);
  auto* const state = reinterpret_cast<cuda_kernels::DeviceRank*>(state_.data());
  const StateLayout layout(nranks_);
  std::size_t enqueued = 0;
  for (const plan::Operation* operation : operations) {
    const auto by_engines =
        copy_engines_ && fabric_->all_reach() ? CopiesByEngines(*operation, rank_, nranks_, *windows_) : std::nullopt;
    auto& plan = plans_->Find(*operation, plan::PackCall(*operation), by_engines ? &*by_engines : nullptr);
    const int peer = operation->point_to_point() ? operation->root : -1;
    const bool sends = operation->collective == schedule::Collective::send;
    auto queue = std::find_if(part.queues.begin(), part.queues.end(),
                              [&](const DeviceCalls& calls) { return calls.peer == peer && calls.sends == sends; });
    if (queue == part.queues.end()) {
      const auto index = StateLayout::Queue(nranks_, peer, sends);
      auto* const queues = reinterpret_cast<cuda_kernels::DeviceQueue*>(state_.data() + layout.queues_at);
      auto* const lanes = reinterpret_cast<std::uint64_t*>(state_.data() + layout.lanes_at);
      part.queues.push_back({state, queues + index, lanes, peer, sends, {}, 0});
      queue = part.queues.end() - 1;
    }
    if (plan.program.lanes() > kMostLanes) {
      Throw(tuttiInvalidUsage, "the call needs {} lanes, but a GPU allows {}", plan.program.lanes(), kMostLanes);
    }
    const auto& schedule = plan.program.schedule();
    static const plan::Operation barrier = plan::Barrier();
    for (int run = 0; run < (by_engines ? 2 : 1); ++run) {
      queue->works.push_back(
          {.work = WorkOf(by_engines ? barrier : *operation, plan),
           .blocks = plan.program.blocks(),
           .alone = schedule.one_launch || by_engines,
           .copied = schedule.separate_input && operation->in_place && !by_engines ? plan.used.input : 0,
           .followed_by = {}});
      QueuedWork& queued = queue->works.back();
      queued.work.site = sites_->NumberOf(operation->site, operation->site_text).number;
      if (by_engines) queued.work.place = by_engines->place;
      if (by_engines && run == 0) queued.followed_by = by_engines->all;
      ++enqueued;
    }
    queue->threads = std::max(queue->threads, plan.program.threads());
    ++plan.operations;
    plans_->Use(plan);
    if (operation->observed != nullptr) operation->observed->Begin(plan.choice, schedule.channels.size());
    if (reports_) plan::ReportPlan(rank_, nranks_, *operation, plan.choice, schedule.channels.size());
  }
  enqueued_.fetch_add(enqueued, std::memory_order_release);
  if (proxy_ != nullptr) proxy_->Wake();
  return part;
}

std::size_t DeviceSide::persistent_bytes() const {
  return fabric_->other_bytes() + arena_->bytes() + windows_->bytes() + signals_->bytes() + state_.bytes() +
         barrier_.bytes();
}

std::string DeviceSide::Suspend(const AllGather& all_gather) {
  all_gather({});  // other ranks' kernels use this rank's memory
  // If a rank dies on the way, this rank's memory may be gone already.
  suspended_.store(true, std::memory_order_release);
  auto why = fabric_->GiveBack(all_gather);
  if (!why.empty()) suspended_.store(false, std::memory_order_release);
  return why;
}

std::string DeviceSide::Resume(const AllGather& all_gather, Deadline deadline) {
  auto why = fabric_->TakeAgain(all_gather, deadline);
  suspended_.store(!why.empty(), std::memory_order_release);
  return why;
}

}  // namespace tutti::device
