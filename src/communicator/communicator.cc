#include "src/communicator/communicator.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "algorithms/builders/records.h"
#include "base/all_gather.h"
#include "base/clock.h"
#include "base/files/files.h"
#include "base/log.h"
#include "src/diagnostics/dump.h"
#include "src/init/rank_arrangement.h"
#include "src/init/survey.h"
#include "src/memory/device_buffers.h"
#include "src/plan/planning.h"
#include "topology/detect/host.h"
#include "transports/tcp/listening.h"

namespace tutti::comm {

Communicator::Communicator(const Meet& meet, Options options, Cancellation cancel)
    : options_(std::move(options)), cancel_(cancel) {
  const auto deadline = InitDeadline();
  control_plane_ = meet(options_.settings, deadline);
  // From here on this rank can tell the others why it fails.
  try {
    SetUp(deadline);
  } catch (...) {
    control_plane_->Refuse(RefusalOf(CurrentFailure(), "while the communicator was made"));
    throw;
  }
}

Communicator::Meet Communicator::At(const bootstrap::JoinTicket& ticket, int nranks, int rank, Cancellation cancel) {
  return [=](const Settings& settings, Deadline deadline) {
    return bootstrap::ControlPlane::Join(ticket, nranks, rank, settings, deadline, cancel);
  };
}

void Communicator::SetUp(Deadline deadline) {
  const int nranks = size(), rank = this->rank();
  cost_model::TuningContext tuning;
  cost_model::ParseForcedAlgorithms(options_.settings.algorithm, nranks, tuning.forced);
  if (options_.settings.deterministic && nranks > schedule::kMaxReads) {
    Throw(tuttiInvalidUsage,
          "deterministic mode reduces all contributions at once, so it supports at most {} ranks; there are {}",
          schedule::kMaxReads, nranks);
  }
  const shm::Hosts hosts = shm::FindHosts(MakeAllGather(), options_.settings.virtual_hosts);
  agreement_ = init::Agree(options_.settings, options_.device, rank, hosts, MakeAllGather());
  why_no_device_ = agreement_.why_no_device;
  identity_ =
      fmt::format("{:02x}", fmt::join(auth::KeyedHash<16>(control_plane_->data_key(), "tutti communicator", {}), ""));
  if (agreement_.programs) programs_ = plan::Programs(options_.settings, tuning.forced, rank, nranks, MakeAllGather());

  const int channels = std::max({cost_model::kFewestChannels, options_.settings.channels,
                                 options_.settings.min_channels, agreement_.threads, programs_.connections()});
  // One more channel for messages between pairs, which are ordered separately.
  fabric_ = std::make_unique<shm::Fabric>(rank, hosts, channels + 1, options_.settings, MakeAllGather(), deadline);
  fabric_->SpreadSlots(agreement_.slot_span);
  windows_.emplace(*fabric_);
  const cost_model::Processors processors = init::ProcessorsOf(hosts, rank, agreement_);
  network_ = init::ConnectHosts(*fabric_, control_plane_->roster(), control_plane_->data_key(), options_.settings,
                                processors.crowding, MakeAllGather());
  membership_agreement_ = MakeMembershipAgreement(hosts);
  failure_detector_ = std::make_unique<diagnostics::FailureDetector>(
      *fabric_, network(), control_plane_->roster(), options_.name, options_.settings.operation_timeout());
  std::vector<std::string> names;  // host numbers distinguish hosts of the same name
  for (std::size_t r = 0; r < hosts.host_of.size(); ++r) {
    names.push_back(fmt::format("{}, {}", control_plane_->roster()[r].host, hosts.host_of[r]));
  }
  system_ = init::Survey(options_.settings, rank, names, MakeAllGather());
  if (rank == 0) Log(Subject::init, "{} ranks on {} cores; {}", nranks, agreement_.cores, init::Summary(system_));
  tuning.nranks = nranks;
  init::ArrangeRanks(hosts, options_.settings, system_, agreement_.processors, rank, tuning);
  tuning.max_channels = channels;
  tuning.threads = agreement_.threads;
  tuning.bulk_capacity = fabric_->layout().bulk_capacity();
  tuning.cma = fabric_->cma();
  if (fabric_->cma_forced()) tuning.forced.cma = true;
  const int cores_of_a_cache = agreement_.cores / (tuning.domains ? tuning.where.nodes() : 1);
  tuning.stream_bytes = options_.settings.stream_bytes != 0 ? static_cast<std::size_t>(options_.settings.stream_bytes)
                                                            : detect::CacheShareBytes(cores_of_a_cache);
  tuning.deterministic = options_.settings.deterministic;
  tuning.forced.channels = options_.settings.channels;
  tuning.forced.chunk_bytes = static_cast<std::size_t>(options_.settings.chunk_bytes);
  tuning.forced.least_channels = options_.settings.min_channels;
  tuning.forced.most_channels = options_.settings.max_channels;
  cost_model::ParseForcedProtocol(options_.settings.protocol, tuning.forced);
  external_tuner_ = plan::ExternalTuner::Open(facts());
  if (why_no_device_.empty()) MakeDeviceContext(tuning, deadline);
  selector_ = std::make_unique<plan::PlanSelector>(std::move(tuning), programs_, processors, network_.costs,
                                                   options_.settings, external_tuner_.get(), rank, MakeAllGather());
  const int busy = agreement_.neighbours * agreement_.threads;
  wait_policy_ = host::ChooseWaitPolicy(options_.settings.wait, busy, agreement_.cores);
  stream_wait_policy_ = host::ChooseWaitPolicy(options_.settings.wait, busy, agreement_.cores, host::WhoWaits::stream);
  // Ranks that outnumber cores wait by yielding. All ask for short slices, so that beside a program that computes they
  // get the core back soon.
  if (wait_policy_.spin.count() == 0) wait_policy_.slice = std::chrono::microseconds(options_.settings.slice_us);
  sleeper_ = std::make_unique<host::Sleeper>(*fabric_, network());
  driver_ = host::Driver(sleeper_.get(), wait_policy_);
  if (options_.settings.threads > 1) {
    const int helpers = options_.settings.threads - 1;
    helper_threads_ = std::make_unique<host::HelperThreads>(helpers);
    helper_drivers_.assign(static_cast<std::size_t>(helpers), driver_);
  }
  if (!options_.settings.trace.empty())
    trace_ = std::make_unique<diagnostics::Trace>(options_.settings.trace, rank, options_.name);
  observer_ = std::make_unique<Observer>(facts());
  operations_ =
      std::make_unique<host_side::Operations>(host_side::Operations::Parts{options_.settings, programs_, *fabric_, *failure_detector_,
                                                     *windows_, trace_.get(), observer_->get() != nullptr},
                                   plan::PlanContext{selector_.get(), &programs_, fabric_.get(), &*windows_, channels,
                                                     network(), network_.transport});
  // No rank begins before every rank's state can be watched.
  const auto joining = std::exchange(cancel_, Cancellation(cancelled_));
  try {
    control_plane_->Barrier(deadline, joining);
  } catch (const Error& error) {
    failure_detector_->Fail(error);  // for ranks that have passed the barrier
    throw;
  }
}

void Communicator::MakeDeviceContext(cost_model::TuningContext tuning, Deadline deadline) {
  const auto& roster = control_plane_->roster();
  const auto key = auth::DeriveKey(control_plane_->data_key(), "tutti GPUs", {});
  device_ = device::DeviceContext::Make({options_.device, &options_.settings, &system_, &fabric_->hosts(), &roster, key,
                                         std::move(tuning), external_tuner_.get()},
                                        rank(), size(), MakeAllGather(), deadline, &why_no_device_);
  if (device_ == nullptr) {
    if (rank() == 0) Log(Subject::init, "host memory only: {}", why_no_device_);
    return;
  }
  device_failure_detector_ = std::make_unique<device::DeviceFailureDetector>(
      *device_, roster, options_.name, options_.settings.operation_timeout(), [this] { return failure(); },
      [this](const Error& failure) { Fail(failure); });
}

void Communicator::AwaitDevice() const {
  constexpr std::chrono::milliseconds kLookEvery{50};
  while (device_ != nullptr && !failed() && !device_->AwaitIdle(kLookEvery)) {
  }
}

void Communicator::AwaitDeviceFault() const {
  constexpr std::chrono::milliseconds kLookEvery{1}, kPromised{1000};  // docs/faults.md
  if (device_failure_detector_ == nullptr) return;
  const auto deadline = Deadline::After(kPromised);
  for (Lookout lookout; device_failure_detector_->Faulted() && !failed() && !deadline.Passed(); lookout.Look()) {
    std::this_thread::sleep_for(kLookEvery);
  }
}

Communicator::~Communicator() {
  if (fabric_ == nullptr) return;
  if (device_ != nullptr && failed()) device_->Release();
  auto& state = fabric_->control(fabric_->rank()).state;
  auto alive = ring::RankState::alive;
  const bool leaves =
      state.compare_exchange_strong(alive, ring::RankState::left, std::memory_order_release, std::memory_order_relaxed);
  host::WakeAll(*fabric_);
  if (leaves && network_.engine != nullptr) network_.engine->Leave();
}

std::unique_ptr<shrink::MembershipAgreement> Communicator::MakeMembershipAgreement(const shm::Hosts& hosts) {
  const auto key = auth::DeriveKey(control_plane_->data_key(), "tutti reunion", {});
  auto port = auth::Port::At(control_plane_->places(), fmt::format("rank {}", rank()));
  // Served before the others learn of it.
  auto keeper = std::make_unique<auth::Doorkeeper>(port, key, auth::Purpose::membership_agreement, rank());
  auto addresses = tcp::GatherAddresses(MakeAllGather(), port->addresses());
  return std::make_unique<shrink::MembershipAgreement>(
      rank(), shrink::MembershipAgreement::Ranks{control_plane_->roster(), hosts.host_of, std::move(addresses)},
      std::move(keeper), key, Deadline::Milliseconds(options_.settings.silence_ms),
      [this](int rank) { return network_.engine != nullptr && network_.engine->Reaches(rank); });
}

AllGather Communicator::MakeAllGather(Cancellation cancel) {
  return [this, cancel](std::span<const std::byte> mine) {
    return control_plane_->AllGather(mine, InitDeadline(), cancel);
  };
}

void Communicator::LockSlowly() {
  while (busy_.exchange(true, std::memory_order_acquire)) sched_yield();
}

void Communicator::UseTable(tuner::SelectionTable table) {
  selector_->UseTable(std::move(table));
  operations_->ForgetPlans();
}

Error Communicator::Fail(const Error& failure) {
  const bool first = !failure_detector_->failed();
  const Error kept = failure_detector_->Fail(failure);
  if (first) DumpRecorder();
  return kept;
}

void Communicator::DumpRecorder() const {
  const auto& settings = options_.settings;
  if (!settings.dump.empty()) {
    try {
      WriteDump(settings.dump);
    } catch (const std::exception& exception) {
      LogLine(Subject::faults, exception.what());  // the failure itself matters more
    }
  } else if (settings.recorder != 0) {
    const auto text = DumpRecords();
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

void Communicator::WriteDump(const std::string& path) const {
  WriteFile(diagnostics::ExpandPath(path, rank()),
            diagnostics::DumpOf({.communicator = identity_,
                                 .name = options_.name,
                                 .rank = rank(),
                                 .roster = control_plane_->roster(),
                                 .failure = failure(),
                                 .waits_for = waits_for_.load(std::memory_order_relaxed),
                                 .scale = calendar_.Scale()},
                                fabric_->control(rank())));
}

std::optional<Error> Communicator::Look(const host_side::Active& active, const diagnostics::Awaited& awaited,
                                        std::chrono::steady_clock::duration waited) {
  const int first = failure_detector_->Cause(active.in_flight(), awaited);
  waits_for_.store(first, std::memory_order_relaxed);
  fabric_->control(rank()).awaits.store(ring::PackAwaited(active.record, first), std::memory_order_release);
  return failure_detector_->Look(active.in_flight(), awaited, waited);
}

void Communicator::Stop(std::string_view what) {
  cancelled_.store(true, std::memory_order_release);
  const Error stopped(tuttiRemoteError, fmt::format("{} {} the communicator", failure_detector_->Who(rank()), what));
  failure_detector_->Stop(stopped);
  if (device_failure_detector_ != nullptr) device_failure_detector_->Stop(stopped);
}

void Communicator::Abort() {
  aborted_.store(true, std::memory_order_release);
  Stop("aborted");
}

void Communicator::RegisterBuffer(std::byte* begin, std::size_t bytes) {
  if (device_ != nullptr) device_->registered().Add(begin, bytes);
  const bool with_network =
      network() != nullptr && (device_ == nullptr || !memory::IsGpuMemory(device_->device(), begin));
  if (with_network) network()->Register(begin, bytes);
  registered_.emplace(begin, with_network ? bytes : 0);
}

void Communicator::DeregisterBuffer(std::byte* handle) {
  const auto found = registered_.find(handle);
  if (found == registered_.end()) {
    Throw(tuttiInvalidUsage, "handle {} is not one of tuttiCommRegister on this comm, or has been deregistered",
          static_cast<const void*>(handle));
  }
  if (device_ != nullptr) device_->registered().Remove(handle);
  if (found->second != 0) network()->Deregister(found->first, found->second);
  registered_.erase(found);
}

void Communicator::ReadCounters(tuttiCounters_t& counters) {
  tuttiCounters_t now{};
  operations_->AddTraffic(now);
  if (device_ != nullptr) device_->plans().AddTraffic(now);
  const auto add = [&now](const host::WaitCounts& counts) {
    now.waitSpins += counts.spins;
    now.waitYields += counts.yields;
    now.waitSleeps += counts.sleeps;
    now.waitLate += counts.late;
    now.waitLostSlices += counts.lost_slices;
  };
  add(driver_.counts());
  for (const auto& driver : helper_drivers_) add(driver.counts());
  const auto size = counters.size;
  std::memcpy(&counters, &now, std::min(size, sizeof now));
  counters.size = size;
}

double Communicator::EstimatedMicroseconds(const plan::Operation& asked, bool on_device) const {
  if (!asked.collective_call() || size() == 1) return 0;
  const plan::Operation operation = plan::Scheduled(asked);
  const cost_model::Kind kind = plan::KindOf(operation);
  const std::size_t bytes = plan::LargestBlockBytes(operation);
  return on_device ? device_->plans().Microseconds(system_, kind, bytes) : selector_->Microseconds(kind, bytes);
}

std::string Communicator::DescribeLast() const {
  const auto last = operations_->last();
  const auto plan = last.on_device ? device_->plans().last() : last.plan;
  if (!plan) return "";
  return fmt::format("{}{}: {}, {} channels, chunk {} B, {}; {} ranks ({})", plan::DescribeCall(last.call, last.count),
                     last.on_device ? " on the GPU" : "", builders::NameOf(plan->choice.candidate.algorithm),
                     plan->channels, plan->config.chunk_bytes, schedule::DescribeSlots(plan->config), size(),
                     plan->choice.reason);
}

std::string Communicator::DumpRecords() const {
  std::string text;
  for (int r = 0; r < size(); ++r) {
    text += fmt::format("{}:\n", failure_detector_->Who(r));
    for (const auto& record : diagnostics::ReadRecords(fabric_->control(r))) {
      text += fmt::format("  #{} operation {}: {}{}\n", record.index, record.sequence, record.Describe(),
                          !record.done() ? "  <- not finished" : "");
    }
  }
  return text;
}

}  // namespace tutti::comm
