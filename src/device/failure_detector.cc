#include "src/device/failure_detector.h"

#include <atomic>
#include <utility>

#include "base/clocks/clock.h"
#include "base/log.h"
#include "base/threads/quiet_thread.h"

namespace tutti::device {
namespace {

// Kernels end in microseconds, so a longer one is worth a closer look.
constexpr std::chrono::milliseconds kLookEvery{2};
// Period while no call runs: enqueuing a call does not ring, and 500 looks a second take one percent of a core.
constexpr std::chrono::milliseconds kIdleLookEvery{20};
// By then a peer's detector has published the peer's call, even on a busy host. Earlier, the error could not name that
// call.
constexpr std::chrono::milliseconds kPatience{200};

template <typename T>
T Published(const T& word) {
  return std::atomic_ref(const_cast<T&>(word)).load(std::memory_order_acquire);
}

host::Fault::Kind FaultOf(cuda_kernels::DeviceFaultKind kind) {
  switch (kind) {
    case cuda_kernels::DeviceFaultKind::foreign: return host::Fault::Kind::foreign;
    case cuda_kernels::DeviceFaultKind::length: return host::Fault::Kind::length;
    case cuda_kernels::DeviceFaultKind::forged: return host::Fault::Kind::forged;
    case cuda_kernels::DeviceFaultKind::none: break;
  }
  return host::Fault::Kind::none;
}

}  // namespace

DeviceFailureDetector::DeviceFailureDetector(DeviceSide& side, const init::Meeting& meeting,
                                             std::function<std::optional<Error>()> outside,
                                             std::function<void(const Error&)> fail)
    : side_(side),
      failure_detector_(side.shm(), side.network(), meeting.roster, meeting.name, meeting.settings.operation_timeout()),
      recorder_(side.control()),
      outside_(std::move(outside)),
      fail_(std::move(fail)) {
  side.control().several.store(1, std::memory_order_release);  // streams and graphs
  thread_ = QuietThread([this] { Work(); });
}

DeviceFailureDetector::~DeviceFailureDetector() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ending_.notify_all();
  thread_.join();
  Read();  // peers may read the last calls after this rank is gone
}

void DeviceFailureDetector::Fail(const Error& failure) {
  failure_detector_.Fail(failure);
  side_.Stop();
}

void DeviceFailureDetector::Stop(const Error& stopped) {
  failure_detector_.Stop(stopped);
  side_.Release();
}

bool DeviceFailureDetector::Faulted() const {
  return failure_detector_.failed() ||
         static_cast<cuda_kernels::DeviceFaultKind>(Published(side_.progress().fault_kind)) !=
             cuda_kernels::DeviceFaultKind::none;
}

void DeviceFailureDetector::LookNow() {
  std::unique_lock lock(mutex_);
  wanted_ = looks_ + 2;  // one look may be half done
  ending_.notify_all();
  ending_.wait(lock, [this, wanted = wanted_] { return looks_ >= wanted; });
}

void DeviceFailureDetector::Work() {
  auto moved = Clock::now();
  Lookout lookout;
  std::unique_lock lock(mutex_);
  const auto pause = [this] { return side_.MayRun() || !running_.empty() ? kLookEvery : kIdleLookEvery; };
  for (;;) {
    ending_.wait_for(lock, pause(), [this] { return end_ || looks_ < wanted_; });
    if (end_) return;
    lock.unlock();
    const auto now = lookout.Look();
    if (Read() || running_.empty()) moved = now;
    if (!failure_detector_.failed()) {
      if (const auto outside = outside_()) {
        Fail(*outside);
      } else if (const auto failure = Look(now - moved)) {
        Fail(*failure);
        fail_(*failure);
      }
    }
    lock.lock();
    if (++looks_ == wanted_) ending_.notify_all();
  }
}

bool DeviceFailureDetector::Read() {
  auto& progress = side_.progress();
  auto& control = side_.control();
  bool news = false;
  for (;; ++seen_) {
    const cuda_kernels::DeviceCall& entry = progress.calls[(seen_ + 1) % cuda_kernels::kProgressEntries];
    cuda_kernels::DeviceCall call{Published(entry.index),     Published(entry.sequence), Published(entry.digest),
                                  Published(entry.signature), Published(entry.call),     Published(entry.count),
                                  Published(entry.site),      Published(entry.check)};
    // A later entry overwrote it: the detector slept long, and continues with the oldest entry left.
    if (call.index > seen_ + 1 && call.check == cuda_kernels::CheckOf(call)) {
      seen_ = call.index - cuda_kernels::kProgressEntries;
      news = true;
      running_.clear();
      continue;
    }
    if (call.index != seen_ + 1 || call.check != cuda_kernels::CheckOf(call)) break;
    news = true;
    const auto site = static_cast<std::uint32_t>(call.site);
    Running running{plan::UnpackCall(call.call, call.count), call.sequence, call.signature, 0, site};
    running.record =
        recorder_.Begin({call.sequence, call.signature, call.call, call.count, Ticks(), ring::PackOrigin(0, site)});
    if (running.operation.collective_call()) {
      control.started.store(call.sequence, std::memory_order_release);
      failure_detector_.history().Begin(call.sequence, call.digest);
      untold_ = untold_ || plan::MayEndAlone(running.operation);
    }
    running_.emplace(call.index, std::move(running));
  }
  control.completed.store(side_.Done(-1, false), std::memory_order_release);
  const auto ended = std::erase_if(running_, [&](const auto& entry) {
    if (!Done(entry.second)) return false;
    recorder_.End(entry.second.record, Ticks());
    return true;
  });
  return news || ended > 0;
}

bool DeviceFailureDetector::Done(const Running& running) const {
  const auto& operation = running.operation;
  if (operation.one_sided()) return side_.signals().Done(operation.root) >= running.sequence;
  const int peer = operation.point_to_point() ? operation.root : -1;
  return side_.Done(peer, operation.collective == schedule::Collective::send) >= running.sequence;
}

// A kernel does not report which rank it waits for: on other hosts it may be any rank except those that completed the
// operation and left in order; a rank that only completed it may have data unsent. (The detector sees its own host's.)
std::vector<int> DeviceFailureDetector::MayBeAwaited(const Running& running) const {
  auto& shm = side_.shm();
  if (!running.operation.collective_call()) return {running.operation.root};
  std::vector<int> ranks;
  for (int r = 0; r < shm.nranks(); ++r) {
    const auto& theirs = shm.control(r);
    const bool needs_nothing = theirs.state.load(std::memory_order_acquire) == ring::RankState::left &&
                               theirs.completed.load(std::memory_order_acquire) >= running.sequence;
    if (!shm.is_local(r) && !needs_nothing) ranks.push_back(r);
  }
  return ranks;
}

std::optional<Error> DeviceFailureDetector::Look(Clock::duration waited) {
  const auto& progress = side_.progress();
  const auto kind = static_cast<cuda_kernels::DeviceFaultKind>(Published(progress.fault_kind));
  // The peer's detector needs this rank's call, as this one needs the peer's; the kernels send nothing any more.
  auto* const network = side_.network();
  if (network != nullptr && kind != cuda_kernels::DeviceFaultKind::none) network->Announce();
  for (const auto& [index, running] : running_) {
    const diagnostics::InFlight in_flight{&running.operation, running.sequence, running.signature, running.site};
    if (kind == cuda_kernels::DeviceFaultKind::none) {
      if (auto failure = failure_detector_.Look(in_flight, {MayBeAwaited(running)}, waited)) return failure;
      continue;
    }
    const host::Fault fault{FaultOf(kind), Published(progress.fault_peer), Published(progress.fault_expected),
                            Published(progress.fault_got)};
    // The faulty slot belongs to the latest operation that involves that peer.
    if (running.operation.one_sided()) continue;
    const bool message = running.operation.point_to_point();
    if (message && running.operation.root != fault.peer) continue;
    // The peer's own detector publishes its call, and may be one look behind.
    if (waited < kPatience) return std::nullopt;
    return failure_detector_.Explain(in_flight, fault);
  }
  if (kind != cuda_kernels::DeviceFaultKind::none) return std::nullopt;
  // Also announces calls that are over: kernels that only send wait for no other rank.
  if (network != nullptr && std::exchange(untold_, false)) network->Announce();
  return failure_detector_.Compare();
}

}  // namespace tutti::device
