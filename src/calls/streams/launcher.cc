#include "src/calls/streams/launcher.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/threads/made_once.h"

namespace tutti::calls {

namespace {

// A sweep of one operation: advances every `stride`-th channel from `first` on.
host::Run::Progress Sweep(const host_side::Active& active, host_side::HostSide& side, std::size_t first,
                          std::size_t stride) {
  const auto progress = active.plan->run.Advance(first, stride);
  if (side.network() == nullptr || progress == host::Run::Progress::faulted) return progress;
  const bool moved = side.MoveNetwork(progress == host::Run::Progress::done);
  return moved && progress == host::Run::Progress::blocked ? host::Run::Progress::moved : progress;
}

// The ranks that the threads of one operation wait for. Only the thread that drives a lane may read it, so each thread
// reports what it waits for when it looks at the clock, and the caller combines the reports.
class AwaitedByThreads {
 public:
  explicit AwaitedByThreads(int threads) : threads_(static_cast<std::size_t>(threads)) {}
  void Tell(int thread, std::vector<int> ranks) {
    const std::lock_guard lock(mutex_);
    told_.resize(threads_);  // not earlier: most operations end before any thread looks at the clock
    told_[static_cast<std::size_t>(thread)] = {std::move(ranks), true};
  }
  // Confirmed: every waiting thread has reported since the last call.
  diagnostics::Awaited All() {
    const std::lock_guard lock(mutex_);
    diagnostics::Awaited all;
    for (auto& [ranks, fresh] : told_) {
      all.ranks.insert(all.ranks.end(), ranks.begin(), ranks.end());
      all.confirmed = all.confirmed && (fresh || ranks.empty());
      fresh = false;
    }
    return all;
  }

 private:
  struct Told {
    std::vector<int> ranks;
    bool fresh = false;
  };
  std::mutex mutex_;
  const std::size_t threads_;
  std::vector<Told> told_;  // by thread
};

// With helper threads, each drives its own channels. The caller also looks for faults, until the last helper is done;
// that helper rings, because the caller may be asleep.
std::optional<Error> DriveTogether(const host_side::Active& active, comm::Communicator& communicator,
                                   host::HelperThreads& helper_threads, host::WhoWaits who) {
  auto& side = communicator.host();
  const auto stride = static_cast<std::size_t>(helper_threads.size());
  std::optional<Error> failure;
  // Release: a caller that sees that a helper is done also sees what it has written and streamed.
  std::atomic<int> helpers_at_work{helper_threads.size() - 1};
  AwaitedByThreads awaited(helper_threads.size());
  helper_threads.Work([&](int index) {
    const auto own = static_cast<std::size_t>(index);
    bool told = false;
    const auto tell = [&](std::vector<int> ranks) {
      told = !ranks.empty();
      awaited.Tell(index, std::move(ranks));
    };
    const auto tell_own = [&] { tell(active.plan->run.WaitsFor(own, stride)); };
    const auto sweep = [&] {
      const auto progress = Sweep(active, side, own, stride);
      if (told && progress != host::Run::Progress::blocked) tell({});
      const bool waits =
          progress == host::Run::Progress::done && index == 0 && helpers_at_work.load(std::memory_order_acquire) > 0;
      return waits ? host::Run::Progress::blocked : progress;
    };
    if (index == 0) {
      const auto result = side.driver(who).Drive(sweep, [&](auto waited) {
        tell_own();
        failure = side.Look(active, awaited.All(), waited);
        return !failure;
      });
      if (result == host::DriveResult::faulted) failure = side.Explain(active, active.plan->run.fault(own, stride));
      // Ends the helpers' waits.
      if (failure) failure = communicator.Fail(*failure);
    } else {
      const auto result = side.helper_driver(index, who).Drive(sweep, [&](auto) {
        tell_own();
        return !communicator.failed();
      });
      if (result == host::DriveResult::faulted) {
        communicator.Fail(side.Explain(active, active.plan->run.fault(own, stride)));
      }
      if (helpers_at_work.fetch_sub(1, std::memory_order_release) == 1) side.WakeSleepers();
    }
  });
  return communicator.failed() ? communicator.failure() : failure;
}

std::optional<Error> DriveAlone(const host_side::Active& active, host_side::HostSide& side, host::WhoWaits who) {
  std::optional<Error> failure;
  auto& run = active.plan->run;
  const auto result = side.driver(who).Drive([&] { return Sweep(active, side, 0, 1); },
                                             [&](auto waited) {
                                               failure = side.Look(active, {run.WaitsFor(0, 1)}, waited);
                                               return !failure;
                                             });
  if (result == host::DriveResult::faulted) failure = side.Explain(active, run.fault(0, 1));
  return failure;
}

// The operation fails, and its caller gets back what it lent.
Error FailIn(const host_side::Active& active, comm::Communicator& communicator, const Error& failure) {
  auto kept = communicator.Fail(failure);
  if (active.plan != nullptr) active.plan->run.Recall();
  return kept;
}

// Inlined: a small call goes through here, and the second place that calls it is for checks only.
[[gnu::always_inline]] inline std::optional<Error> RunLocked(comm::Communicator& communicator,
                                                             const plan::Operation& operation, host::WhoWaits who) {
  if (communicator.failed()) return communicator.failure();
  host_side::Active active;
  try {
    auto& operations = communicator.host().operations();
    operations.Trim();
    active = operations.Begin(operation);
  } catch (...) {
    // Only this rank may have begun it: the peers must not wait for the rest.
    return FailIn(active, communicator, comm::CurrentFailure());
  }
  return Finish(communicator, active, who);
}

}  // namespace

const plan::Operation& CheckingBarrier() {
  static constinit MadeOnce<const plan::Operation> barrier;
  return barrier.Get([] { return std::make_unique<const plan::Operation>(plan::Barrier()); });
}

std::optional<Error> RunOne(comm::Communicator& communicator, const plan::Operation& operation, host::WhoWaits who) {
  const std::lock_guard lock(communicator);
  try {
    while (const auto* const before = communicator.host().operations().Before(operation)) {
      if (auto failure = RunLocked(communicator, *before, who)) return failure;
    }
  } catch (...) {
    return FailIn({}, communicator, comm::CurrentFailure());
  }
  auto failure = RunLocked(communicator, operation, who);
  if (failure || !MustCheck(communicator, operation)) return failure;
  return RunLocked(communicator, CheckingBarrier(), who);
}

std::optional<Error> Finish(comm::Communicator& communicator, const host_side::Active& active, host::WhoWaits who) {
  try {
    auto& side = communicator.host();
    auto* const helper_threads = side.HelpersOf(active);
    const auto failure = helper_threads == nullptr ? DriveAlone(active, side, who)
                                                   : DriveTogether(active, communicator, *helper_threads, who);
    if (failure) return FailIn(active, communicator, *failure);
    if (const auto disagreement = side.operations().End(active)) return communicator.Fail(*disagreement);
  } catch (...) {
    return FailIn(active, communicator, comm::CurrentFailure());
  }
  return std::nullopt;
}

}  // namespace tutti::calls
