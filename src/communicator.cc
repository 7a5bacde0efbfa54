#include "src/communicator.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>

#include "algorithms/build.h"
#include "base/clock.h"
#include "base/datatype.h"
#include "base/log.h"
#include "src/bootstrap/rendezvous.h"
#include "src/device_buffers.h"
#include "src/dump.h"
#include "src/survey.h"
#include "topology/host.h"
#include "transports/gather_values.h"
#include "transports/tcp.h"
#include "transports/verbs.h"

namespace tutti {
namespace {

struct Agreement {
  CpuMask cpus;
  std::int32_t quota;
  std::int32_t channels;
  std::int64_t chunk_bytes;
  std::int32_t deterministic;
  std::int32_t threads;
  std::int32_t virtual_nodes;
  std::int32_t virtual_hosts;
  std::int32_t programs;  // named by rank 0's settings, which count
  std::int32_t device;
  std::array<char, 16> wire;
  std::array<char, 16> net;
  std::array<char, 256> algorithm;
};

// Names are compared up to here: longer ones that differ only beyond are not told apart.
template <std::size_t N>
std::array<char, N> Padded(const std::string& text) {
  std::array<char, N> padded{};
  std::memcpy(padded.data(), text.data(), std::min(text.size(), padded.size() - 1));
  return padded;
}

template <typename T>
void RequireEqual(std::string_view what, const T& first, const T& other, std::size_t rank) {
  if (first == other) return;
  Throw(tuttiInvalidUsage, "ranks disagree on {}: rank 0 has \"{}\", rank {} has \"{}\"; set it alike on every rank",
        what, first, rank, other);
}

}  // namespace

Communicator::Communicator(const JoinTicket& ticket, int nranks, int rank, Options options, Cancellation cancel)
    : options_(std::move(options)), cancel_(cancel) {
  Conditions conditions;
  ParseForcedAlgorithms(options_.settings.algorithm, nranks, conditions.forced);
  if (options_.settings.deterministic && nranks > kMaxReads) {
    Throw(tuttiInvalidUsage,
          "deterministic mode reduces all contributions at once, which works for up to {} ranks; there are {}",
          kMaxReads, nranks);
  }
  const auto deadline = InitDeadline();
  control_plane_ = ControlPlane::Join(ticket, nranks, rank, options_.settings, deadline, cancel);
  const Hosts hosts = FindHosts(MakeAllGather(), options_.settings.virtual_hosts);
  const Agreed agreed = Agree(hosts);
  identity_ = fmt::format("{:02x}", fmt::join(KeyedHash<16>(control_plane_->data_key(), "tutti communicator", {}), ""));
  if (agreed.programs) programs_ = Programs(options_.settings, conditions.forced, rank, nranks, MakeAllGather());

  const int channels = std::max({kMinChannels, options_.settings.channels, threads_, programs_.connections()});
  // One more for messages between pairs, which keep an order of their own.
  fabric_ = std::make_unique<Fabric>(rank, hosts, channels + 1, options_.settings, MakeAllGather(), deadline);
  ConnectHosts();
  watch_ = std::make_unique<Watch>(*fabric_, control_plane_->roster(), options_.name,
                                   std::chrono::milliseconds(options_.settings.operation_timeout_ms));
  recorder_ = std::make_unique<Recorder>(fabric_->control(rank));
  std::vector<std::string> names;  // hosts' numbers tell apart those that are called alike
  for (std::size_t r = 0; r < hosts.host_of.size(); ++r) {
    names.push_back(fmt::format("{}, {}", control_plane_->roster()[r].host, hosts.host_of[r]));
  }
  system_ = Survey(options_.settings, rank, names, MakeAllGather());
  if (rank == 0) Log(Subject::init, "{} ranks on {} cores; {}", nranks, cores_, Summary(system_));
  conditions.nranks = nranks;
  conditions.one_host = hosts.count() == 1;
  if (!conditions.one_host) {
    conditions.where = ArrangeByNode(hosts.host_of);
  } else if (options_.settings.virtual_nodes > 1) {
    conditions.where = ArrangeEvenly(nranks, std::min(nranks, options_.settings.virtual_nodes));
  }
  conditions.max_channels = channels;
  conditions.threads = threads_;
  conditions.bulk_capacity = fabric_->layout().bulk_capacity();
  conditions.deterministic = options_.settings.deterministic;
  conditions.forced.channels = options_.settings.channels;
  conditions.forced.chunk_bytes = static_cast<std::size_t>(options_.settings.chunk_bytes);
  conditions.forced.wire = WireFromName(options_.settings.wire);
  if (agreed.devices && !conditions.one_host) {
    why_no_device_ = "the ranks are on several hosts";
  } else if (agreed.devices) {
    MakeDeviceSide(conditions, deadline);
  }
  selector_ = std::make_unique<Selector>(std::move(conditions), programs_, ProcessorsOf(hosts), options_.settings, rank,
                                         MakeAllGather());
  plans_ = std::make_unique<PlanCache>(PlanContext{selector_.get(), &programs_, fabric_.get(), &windows_, channels,
                                                   LastLevelCacheBytes(), network_transport_});
  wait_policy_ = ChooseWaitPolicy(options_.settings.wait, neighbours_ * threads_, cores_);
  sleeper_ = std::make_unique<Sleeper>(*fabric_);
  driver_ = Driver(sleeper_.get(), wait_policy_);
  sent_.resize(static_cast<std::size_t>(nranks));
  received_.resize(static_cast<std::size_t>(nranks));
  if (options_.settings.threads > 1) crew_ = std::make_unique<Crew>(options_.settings.threads - 1);
  if (!options_.settings.trace.empty()) trace_ = std::make_unique<Trace>(options_.settings.trace, rank, options_.name);
  cancel_ = Cancellation(cancelled_);
  // Nobody begins before everybody can be waited for.
  try {
    control_plane_->Barrier(deadline, cancel);
  } catch (const Error& error) {
    watch_->Fail(error);  // for those who have passed it
    throw;
  }
}

Processors Communicator::ProcessorsOf(const Hosts& hosts) const {
  std::set<int> here;  // hosts of this machine
  for (std::size_t r = 0; r < hosts.host_of.size(); ++r) {
    if (hosts.kernel_of[r] == hosts.kernel_of[static_cast<std::size_t>(rank())]) here.insert(hosts.host_of[r]);
  }
  if (here.size() == 1) return {cores_, 1};
  const int of_host = std::max(1, cores_ / static_cast<int>(here.size()));
  const auto local = static_cast<double>(hosts.RanksWith(rank()).size());
  return {of_host, std::max(1.0, (static_cast<double>(neighbours_) / cores_) / std::max(1.0, local / of_host))};
}

// One carrier for all: verbs where every rank can use them, else TCP, which is said.
void Communicator::ConnectHosts() {
  std::vector<int> remote;
  for (int r = 0; r < size(); ++r) {
    if (!fabric_->is_local(r)) remote.push_back(r);
  }
  if (fabric_->hosts().count() == 1) return;
  const auto& settings = options_.settings;
  const std::string why_not = settings.net == "tcp" ? "TUTTI_NET=tcp" : WhyNoVerbs(settings);
  const auto reasons = MakeAllGather()(std::as_bytes(std::span(why_not)));
  const auto without = std::find_if(reasons.begin(), reasons.end(), [](const auto& each) { return !each.empty(); });
  if (without != reasons.end()) {
    const int r = static_cast<int>(without - reasons.begin());
    const std::string why(reinterpret_cast<const char*>(without->data()), without->size());
    if (settings.net == "verbs") {
      Throw(tuttiInvalidUsage, "TUTTI_NET=verbs, but {} cannot use them: {}",
            Describe(r, control_plane_->roster()[static_cast<std::size_t>(r)]), why);
    }
    if (rank() == 0) Log(Subject::init, "tcp between hosts; verbs not, because of rank {}: {}", r, why);
  }
  network_transport_ = without == reasons.end() ? tuttiTransportVerbs : tuttiTransportTcp;
  network_ = std::make_unique<NetworkEngine>(*fabric_, remote, [&](CarrierEvents& events) -> std::unique_ptr<Carrier> {
    const auto& key = control_plane_->data_key();
    if (network_transport_ == tuttiTransportVerbs) {
      return MakeVerbsCarrier(rank(), remote, key, settings, MakeAllGather(), events);
    }
    return std::make_unique<TcpCarrier>(rank(), remote, key, settings, MakeAllGather(), events);
  });
}

void Communicator::MakeDeviceSide(Conditions conditions, Deadline deadline) {
  const auto& roster = control_plane_->roster();
  device_ = DeviceSide::Make({options_.device, &options_.settings, &system_, &fabric_->hosts(), std::move(conditions)},
                             rank(), size(), MakeAllGather(), deadline, &why_no_device_);
  if (device_ == nullptr) {
    if (rank() == 0) Log(Subject::init, "host memory only: {}", why_no_device_);
    return;
  }
  device_watch_ = std::make_unique<DeviceWatch>(
      *device_, roster, options_.name, std::chrono::milliseconds(options_.settings.operation_timeout_ms),
      [this] { return failure(); }, [this](const Error& failure) { Fail(failure); });
}

void Communicator::AwaitDevice() const {
  constexpr std::chrono::milliseconds kLookEvery{50};
  while (device_ != nullptr && !failed() && !device_->AwaitIdle(kLookEvery)) {
  }
}

Communicator::~Communicator() {
  if (fabric_ == nullptr) return;
  if (device_ != nullptr && failed()) device_->Stop();
  auto& state = fabric_->control(fabric_->rank()).state;
  auto alive = RankState::alive;
  const bool leaves =
      state.compare_exchange_strong(alive, RankState::left, std::memory_order_release, std::memory_order_relaxed);
  WakeAll(*fabric_);
  if (leaves && network_ != nullptr) network_->Leave();
}

// What plans depend on must be equal; what waiting depends on is shared.
Communicator::Agreed Communicator::Agree(const Hosts& hosts) {
  const auto& settings = options_.settings;
  const Agreement mine{AllowedCpus(),
                       static_cast<std::int32_t>(QuotaCpus()),
                       settings.channels,
                       settings.chunk_bytes,
                       settings.deterministic,
                       settings.threads,
                       settings.virtual_nodes,
                       settings.virtual_hosts,
                       !settings.program.empty(),
                       options_.device,
                       Padded<16>(settings.wire),
                       Padded<16>(settings.net),
                       Padded<256>(settings.algorithm)};
  const auto all = MakeAllGather()(std::as_bytes(std::span<const Agreement, 1>(&mine, 1)));
  CpuMask together{};
  int quota = mine.quota;
  Agreement first{};
  int without_device = -1;
  for (std::size_t r = 0; r < all.size(); ++r) {
    Agreement theirs;
    if (all[r].size() != sizeof theirs) Throw(tuttiInternalError, "rank {} sent malformed settings", r);
    std::memcpy(&theirs, all[r].data(), sizeof theirs);
    if (r == 0) first = theirs;
    RequireEqual("channels (TUTTI_CHANNELS)", first.channels, theirs.channels, r);
    RequireEqual("chunk (TUTTI_CHUNK)", first.chunk_bytes, theirs.chunk_bytes, r);
    RequireEqual("deterministic (TUTTI_DETERMINISTIC)", first.deterministic, theirs.deterministic, r);
    RequireEqual("virtual nodes (TUTTI_VIRTUAL_NODES)", first.virtual_nodes, theirs.virtual_nodes, r);
    RequireEqual("virtual hosts (TUTTI_VIRTUAL_HOSTS)", first.virtual_hosts, theirs.virtual_hosts, r);
    RequireEqual("wire (TUTTI_WIRE)", std::string(first.wire.data()), std::string(theirs.wire.data()), r);
    RequireEqual("carrier between hosts (TUTTI_NET)", std::string(first.net.data()), std::string(theirs.net.data()), r);
    RequireEqual("algorithm (TUTTI_ALGO)", std::string(first.algorithm.data()), std::string(theirs.algorithm.data()),
                 r);
    if (hosts.kernel_of[r] == hosts.kernel_of[static_cast<std::size_t>(rank())]) {
      for (std::size_t w = 0; w < together.size(); ++w) together[w] |= theirs.cpus[w];
      quota = std::min(quota, theirs.quota);
      ++neighbours_;
    }
    threads_ = std::max(threads_, theirs.threads);
    if (theirs.device == TUTTI_DEVICE_NONE && without_device < 0) without_device = static_cast<int>(r);
  }
  cores_ = std::min(CountCpus(together), quota);
  if (without_device >= 0) {
    why_no_device_ = fmt::format(
        "no CUDA context was current in rank {}'s thread when the communicator was made, nor did "
        "its config name a device",
        without_device);
  }
  return {first.programs != 0, without_device < 0};
}

AllGather Communicator::MakeAllGather(Cancellation cancel) {
  return [this, cancel](std::span<const std::byte> mine) {
    return control_plane_->AllGather(mine, InitDeadline(), cancel);
  };
}

void Communicator::lock() {
  while (busy_->exchange(true, std::memory_order_acquire)) sched_yield();
}

Active Communicator::Begin(const Operation& operation) {
  const auto packed = PackCall(operation);
  Active active{&operation, &plans_->Find(operation, packed)};
  active.started = Ticks();
  auto& control = fabric_->control(fabric_->rank());
  const auto record = [&]() -> RecordedOperation {
    return {active.sequence, active.plan->signature,
            packed,          operation.count,
            active.started,  static_cast<std::uint64_t>(active.plan->choice.candidate.algorithm)};
  };
  if (operation.point_to_point()) {
    auto& counts = operation.collective == Collective::send ? sent_ : received_;
    active.sequence = ++counts[static_cast<std::size_t>(operation.root)];
    active.record = recorder_->Begin(record());
  } else {
    active.sequence = ++sequence_;
    active.record = recorder_->Begin(record());
    // After the record, so that whoever sees the number finds the record.
    control.started.store(active.sequence, std::memory_order_release);
  }
  last_plan_ = active.plan;
  last_call_ = packed;
  last_count_ = operation.count;
  last_algorithm_.store(active.plan->choice.candidate.algorithm, std::memory_order_relaxed);
  last_on_device_ = false;
  BindBuffers(active);
  return active;
}

void Communicator::UseTable(SelectionTable table) {
  selector_->UseTable(std::move(table));
  plans_->Forget(counters_);
  last_plan_ = nullptr;
}

Reach Communicator::ReachOf(const void* buffer, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uint64_t>(buffer);
  if (fabric_->all_same_process()) return {SlotKind::pointer, 0, address};
  if (!windows_.empty()) {
    if (const auto reach = windows_.Find(buffer, bytes)) return *reach;
  }
  if (fabric_->cma()) return {SlotKind::cma, 0, address};
  return {};
}

void Communicator::BindBuffers(const Active& active) {
  const auto& operation = *active.operation;
  auto& plan = *active.plan;
  Launch launch;
  launch.input = static_cast<const std::byte*>(operation.input);
  launch.output = static_cast<std::byte*>(operation.output);
  if (operation.collective == Collective::barrier) {
    launch.input = &barrier_input_;
    launch.output = &barrier_output_;
  }
  launch.tag = OperationTag(plan.signature, active.sequence);
  launch.scaled = operation.scaled;
  launch.scalar = operation.scalar_source == nullptr ? operation.scalar
                                                     : Scalar::From(operation.scalar_source, SizeOf(operation.type));
  launch.stream_output = plan.stream_output;
  const auto& schedule = plan.plan.schedule();
  const bool may_refer = operation.in_place ? schedule.reference_safe_in_place : schedule.reference_safe;
  if (plan.plan.shape().wire == Wire::bulk && may_refer && options_.settings.zero_copy) {
    launch.input_reach = ReachOf(operation.input, plan.input_bytes);
    launch.output_reach = ReachOf(operation.output, plan.output_bytes);
    launch.send_in_place = true;
  }
  plan.run.Start(launch);
}

void Communicator::End(const Active& active) {
  ++active.plan->operations;
  if (!active.operation->point_to_point()) {
    fabric_->control(fabric_->rank()).completed.store(active.sequence, std::memory_order_release);
  }
  recorder_->End(active.record);
  if (trace_ != nullptr) {
    trace_->Add(PackCall(*active.operation), active.operation->count, active.sequence,
                active.plan->choice.candidate.algorithm, active.started, Ticks());
  }
}

Error Communicator::Fail(const Error& failure) {
  const bool first = !watch_->failed();
  const Error kept = watch_->Fail(failure);
  if (first) DumpRecorder();
  return kept;
}

void Communicator::DumpRecorder() const {
  const auto& settings = options_.settings;
  if (!settings.dump.empty()) {
    WriteDump(settings.dump);
  } else if (settings.recorder != 0) {
    const auto text = DumpRecords();
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

void Communicator::WriteDump(const std::string& path) const {
  const auto place = ExpandPath(path, rank());
  std::ofstream file(place);
  file << DumpOf({.communicator = identity_,
                  .name = options_.name,
                  .rank = rank(),
                  .roster = control_plane_->roster(),
                  .failure = failure(),
                  .waits_for = waits_for_.load(std::memory_order_relaxed),
                  .scale = calendar_.Scale()},
                 fabric_->control(rank()));
  if (!file.flush()) Throw(tuttiSystemError, "cannot write the flight recorder to {}: {}", place, std::strerror(errno));
}

std::optional<Error> Communicator::Look(const Active& active, std::chrono::steady_clock::duration waited) {
  std::vector<int> waits_for;
  for (std::size_t c = 0; c < active.plan->run.channels(); ++c) {
    const auto ranks = active.plan->run.WaitsFor(c);
    waits_for.insert(waits_for.end(), ranks.begin(), ranks.end());
  }
  waits_for_.store(waits_for.empty() ? -1 : waits_for.front(), std::memory_order_relaxed);
  return watch_->Look(active.undertaking(), waits_for, waited);
}

void Communicator::Abort() {
  cancelled_.store(true, std::memory_order_release);
  const Error aborted(tuttiRemoteError, fmt::format("{} aborted the communicator", watch_->Who(rank())));
  watch_->Fail(aborted);
  if (device_watch_ != nullptr) device_watch_->Fail(aborted);
}

tuttiWindow* Communicator::RegisterWindow(void* buffer, std::size_t bytes) {
  const bool mine = device_ != nullptr && IsGpuMemory(device_->device(), buffer);
  if (device_ != nullptr) {
    const auto on_gpu = GatherValues(MakeAllGather(), static_cast<std::uint8_t>(mine));
    const auto other = std::find_if(on_gpu.begin(), on_gpu.end(), [&](auto each) { return each != on_gpu.front(); });
    if (other != on_gpu.end()) {
      Throw(tuttiInvalidArgument, "buff is {} memory on rank 0, {} memory on rank {}", on_gpu.front() ? "GPU" : "host",
            *other ? "GPU" : "host", other - on_gpu.begin());
    }
  }
  if (mine) return device_->windows().Register(buffer, bytes, MakeAllGather());
  return windows_.Register(*fabric_, buffer, bytes, MakeAllGather(), InitDeadline());
}

void Communicator::DeregisterWindow(tuttiWindow* window) {
  if (device_ != nullptr && window != nullptr && device_->windows().Deregister(window, MakeAllGather())) return;
  windows_.Deregister(window, MakeAllGather());
}

std::unique_ptr<Communicator> Communicator::Split(int color, int key, Options options,
                                                  const std::atomic<bool>& cancel) {
  struct Choice {
    std::int32_t color, key;
  };
  // An abort of this communicator or of the new one.
  const Cancellation either(cancelled_, &cancel);
  const auto all_gather = MakeAllGather(either);
  const Choice mine{color, key};
  const auto choices = all_gather(std::as_bytes(std::span<const Choice, 1>(&mine, 1)));
  std::vector<std::pair<int, int>> members;  // key, old rank
  for (std::size_t r = 0; r < choices.size(); ++r) {
    Choice theirs;
    if (choices[r].size() != sizeof theirs) Throw(tuttiInternalError, "rank {} sent a malformed color", r);
    std::memcpy(&theirs, choices[r].data(), sizeof theirs);
    if (theirs.color == color && color >= 0) members.emplace_back(theirs.key, static_cast<int>(r));
  }
  std::sort(members.begin(), members.end());

  // The first rank of each part opens a rendezvous; its ticket travels over the parent's control plane.
  const bool leads = !members.empty() && members.front().second == rank();
  tuttiUniqueId id{};
  if (leads) id = EncodeUniqueId(OpenRendezvous(options_.settings));
  const auto ids = all_gather(std::as_bytes(std::span<const tuttiUniqueId, 1>(&id, 1)));
  if (color < 0) return nullptr;
  const auto& leaders = ids[static_cast<std::size_t>(members.front().second)];
  if (leaders.size() != sizeof id) Throw(tuttiInternalError, "rank {} sent a malformed id", members.front().second);
  std::memcpy(&id, leaders.data(), sizeof id);
  const auto place = std::find(members.begin(), members.end(), std::pair(key, rank())) - members.begin();
  return std::make_unique<Communicator>(DecodeUniqueId(id), static_cast<int>(members.size()), static_cast<int>(place),
                                        std::move(options), either);
}

void Communicator::ReadCounters(tuttiCounters_t& counters) {
  auto now = counters_;
  plans_->AddTraffic(now);
  if (device_ != nullptr) device_->plans().AddTraffic(now);
  now.waitSpins = driver_.counts().spins;
  now.waitYields = driver_.counts().yields;
  now.waitSleeps = driver_.counts().sleeps;
  const auto size = counters.size;
  std::memcpy(&counters, &now, std::min(size, sizeof now));
  counters.size = size;
}

void Communicator::NoteEnqueued(const Operation& operation) {
  last_call_ = PackCall(operation);
  last_count_ = operation.count;
  last_on_device_ = true;
  last_algorithm_.store(device_->last_plan()->choice.candidate.algorithm, std::memory_order_relaxed);
}

std::string Communicator::DescribeLast() {
  const auto describe = [&](const Choice& choice, std::size_t channels, const Shape& shape, std::string_view where) {
    return fmt::format("{}{}: {}, {} channels, chunk {} B, {}; {} ranks ({})", DescribeCall(last_call_, last_count_),
                       where, NameOf(choice.candidate.algorithm), channels, shape.chunk_bytes, NameOf(shape.wire),
                       size(), choice.reason);
  };
  if (last_on_device_) {
    const auto& plan = *device_->last_plan();
    return describe(plan.choice, plan.program.schedule().channels.size(), plan.program.shape(), " on the GPU");
  }
  if (last_plan_ == nullptr) return "";
  return describe(last_plan_->choice, last_plan_->plan.channels().size(), last_plan_->plan.shape(), "");
}

std::string Communicator::DumpRecords() const {
  std::string text;
  for (int r = 0; r < size(); ++r) {
    text += fmt::format("{}:\n", watch_->Who(r));
    for (const auto& record : ReadRecords(fabric_->control(r))) {
      text += fmt::format("  #{} operation {}: {}{}\n", record.index, record.sequence, record.Describe(),
                          !record.done() ? "  <- not finished" : "");
    }
  }
  return text;
}

}  // namespace tutti
