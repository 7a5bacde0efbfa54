#include "src/launch/launcher.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "base/numbers/datatype.h"
#include "base/threads/made_once.h"
#include "src/launch/locked_together.h"

namespace tutti::launch {
namespace {

Error AsError(const std::exception& exception) {
  const auto* error = dynamic_cast<const Error*>(&exception);
  return error != nullptr ? *error : Error(tuttiInternalError, exception.what());
}

// Sends filled slots at once; arrivals are there at the next sweep. A rank that is done waits for nothing, but its
// peers may wait to learn which slots it has emptied. True: something moved.
bool MoveNetwork(const comm::Communicator& communicator, bool done) {
  auto* const network = communicator.network();
  return network != nullptr && (done ? network->Push() : network->Progress());
}

// A sweep of one operation: advances every `stride`-th channel from `first` on.
host::Run::Progress Sweep(const comm::Active& active, comm::Communicator& communicator, std::size_t first,
                          std::size_t stride) {
  const auto progress = active.plan->run.Advance(first, stride);
  if (communicator.network() == nullptr || progress == host::Run::Progress::faulted) return progress;
  const bool moved = MoveNetwork(communicator, progress == host::Run::Progress::done);
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
std::optional<Error> DriveTogether(const comm::Active& active, comm::Communicator& communicator,
                                   host::HelperThreads& helper_threads, host::WhoWaits who) {
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
      const auto progress = Sweep(active, communicator, own, stride);
      if (told && progress != host::Run::Progress::blocked) tell({});
      const bool waits =
          progress == host::Run::Progress::done && index == 0 && helpers_at_work.load(std::memory_order_acquire) > 0;
      return waits ? host::Run::Progress::blocked : progress;
    };
    if (index == 0) {
      const auto result = communicator.driver(who).Drive(sweep, [&](auto waited) {
        tell_own();
        failure = communicator.Look(active, awaited.All(), waited);
        return !failure;
      });
      if (result == host::DriveResult::faulted)
        failure = communicator.Explain(active, active.plan->run.fault(own, stride));
      // Ends the helpers' waits.
      if (failure) failure = communicator.Fail(*failure);
    } else {
      const auto result = communicator.helper_driver(index, who).Drive(sweep, [&](auto) {
        tell_own();
        return !communicator.failed();
      });
      if (result == host::DriveResult::faulted) {
        communicator.Fail(communicator.Explain(active, active.plan->run.fault(own, stride)));
      }
      if (helpers_at_work.fetch_sub(1, std::memory_order_release) == 1) communicator.WakeOwn();
    }
  });
  return communicator.failed() ? communicator.failure() : failure;
}

std::optional<Error> DriveAlone(const comm::Active& active, comm::Communicator& communicator, host::WhoWaits who) {
  std::optional<Error> failure;
  auto& run = active.plan->run;
  const auto result = communicator.driver(who).Drive([&] { return Sweep(active, communicator, 0, 1); },
                                                     [&](auto waited) {
                                                       failure =
                                                           communicator.Look(active, {run.WaitsFor(0, 1)}, waited);
                                                       return !failure;
                                                     });
  if (result == host::DriveResult::faulted) failure = communicator.Explain(active, run.fault(0, 1));
  return failure;
}

// The operation fails, and its caller gets back what it lent.
Error FailIn(const comm::Active& active, comm::Communicator& communicator, const Error& failure) {
  auto kept = communicator.Fail(failure);
  if (active.plan != nullptr) active.plan->run.Recall();
  return kept;
}

}  // namespace

const plan::Operation& CheckingBarrier() {
  static constinit MadeOnce<const plan::Operation> barrier;
  return barrier.Get([] { return std::make_unique<const plan::Operation>(plan::Barrier()); });
}

std::optional<Error> RunOne(comm::Communicator& communicator, const plan::Operation& operation, host::WhoWaits who) {
  if (communicator.failed()) return communicator.failure();
  comm::Active active;
  try {
    auto& operations = communicator.operations();
    operations.Trim();
    active = operations.Begin(operation);
    host::HelperThreads* const helper_threads =
        active.plan->run.channels() > 1 ? communicator.helper_threads() : nullptr;
    const auto failure = helper_threads == nullptr ? DriveAlone(active, communicator, who)
                                                   : DriveTogether(active, communicator, *helper_threads, who);
    if (failure) return FailIn(active, communicator, *failure);
    if (const auto disagreement = operations.End(active)) return communicator.Fail(*disagreement);
  } catch (const std::exception& exception) {
    // Only this rank may have begun it: the peers must not wait for the rest.
    return FailIn(active, communicator, AsError(exception));
  }
  return MustCheck(communicator, operation) ? RunOne(communicator, CheckingBarrier(), who) : std::nullopt;
}

std::optional<Error> FinishAgain(comm::Communicator& communicator, const comm::Active& active) {
  try {
    if (const auto failure = DriveAlone(active, communicator, host::WhoWaits::caller)) {
      return communicator.Fail(*failure);
    }
    if (const auto disagreement = communicator.operations().End(active)) return communicator.Fail(*disagreement);
  } catch (const std::exception& exception) {
    return communicator.Fail(AsError(exception));
  }
  return std::nullopt;
}

namespace {

// Operations of one communicator that must keep their order.
struct Queue {
  std::deque<const plan::Operation*> waiting;
  std::optional<comm::Active> active;

  bool over() const { return !active && waiting.empty(); }
};

// One communicator's part of a group.
struct Part {
  std::vector<Queue> queues;
  std::vector<const plan::Operation*> to_itself, from_itself;
  std::optional<Error> failure;
};

LockedTogether::Members CommunicatorsOf(std::span<const Launched> group) {
  LockedTogether::Members members;
  for (const auto& item : group) members.insert(item.communicator);
  return members;
}

class GroupRun {
 public:
  GroupRun(std::span<const Launched> group, const Left& left) : locked_(CommunicatorsOf(group)), left_(left) {
    std::map<std::tuple<comm::Communicator*, int, int>, std::size_t> places;
    for (const auto& item : group) {
      const auto& operation = item.operation;
      auto& part = parts_[item.communicator];
      const bool message = operation.point_to_point();
      const bool waits = operation.collective == schedule::Collective::wait_signal;
      if (message && operation.root == item.communicator->rank()) {
        (operation.collective == schedule::Collective::send ? part.to_itself : part.from_itself).push_back(&operation);
        continue;
      }
      // Puts and signals never wait, so all of them are in one queue; so are waits.
      const int kind = operation.collective_call()       ? -1
                       : operation.one_sided() && !waits ? static_cast<int>(schedule::Collective::signal)
                                                         : static_cast<int>(operation.collective);
      const auto key = std::tuple(item.communicator, kind, message ? operation.root : -1);
      const auto [place, fresh] = places.emplace(key, part.queues.size());
      if (fresh) part.queues.emplace_back();
      auto& waiting = part.queues[place->second].waiting;
      waiting.push_back(&operation);
      if (MustCheck(*item.communicator, operation)) waiting.push_back(&CheckingBarrier());
    }
    for (auto& [communicator, part] : parts_) {
      if (!communicator->failed()) communicator->operations().Trim();
      communicator->SideBySide(part.queues.size() > 1);
      CopyMessagesToOneself(*communicator, part);
    }
  }
  ~GroupRun() {
    while (!parts_.empty()) Leave(parts_.begin());
  }
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  std::optional<Error> Drive(host::WhoWaits who) {
    auto& [first, part] = *parts_.begin();
    const auto look = [&](auto waited) {
      Look(waited);
      return true;  // a failed communicator's queues are empty; the sweep finds out
    };
    if (parts_.size() == 1) {
      first->driver(who).Drive([&, &communicator = *first, &only = part] { return Sweep(communicator, only); }, look);
      Leave(parts_.begin());
    } else {
      host::Driver(nullptr, first->wait_policy(who)).Drive([&] { return SweepAll(); }, look);
    }
    return first_failure_;
  }

 private:
  using Parts = std::map<comm::Communicator*, Part>;

  host::Run::Progress Sweep(comm::Communicator& communicator, Part& part) {
    bool moved = false, done = true;
    for (auto& queue : part.queues) {
      if (queue.over()) continue;
      moved = Advance(communicator, part, queue) || moved;
      done = done && queue.over();
    }
    moved = MoveNetwork(communicator, done) || moved;
    return done ? host::Run::Progress::done : moved ? host::Run::Progress::moved : host::Run::Progress::blocked;
  }

  host::Run::Progress SweepAll() {
    bool moved = false;
    for (auto part = parts_.begin(); part != parts_.end();) {
      const auto progress = Sweep(*part->first, part->second);
      moved = moved || progress != host::Run::Progress::blocked;
      part = progress == host::Run::Progress::done ? Leave(part) : std::next(part);
    }
    return parts_.empty() ? host::Run::Progress::done
           : moved        ? host::Run::Progress::moved
                          : host::Run::Progress::blocked;
  }

  // This part is over, and the others go on without it.
  Parts::iterator Leave(Parts::iterator which) {
    auto& communicator = *which->first;
    const auto failure = which->second.failure;
    if (failure && !first_failure_) first_failure_ = failure;
    which->first->SideBySide(false);
    const auto next = parts_.erase(which);
    locked_.Unlock(communicator);
    left_(communicator, failure);
    return next;
  }

  bool Advance(comm::Communicator& communicator, Part& part, Queue& queue) {
    if (communicator.failed()) {
      Drop(communicator, part, *communicator.failure());
      return true;
    }
    try {
      if (!queue.active) {
        const auto& next = *queue.waiting.front();
        auto& operations = communicator.operations();
        queue.active = next.one_sided() ? operations.BeginOneSided(next) : operations.Begin(next);
        queue.waiting.pop_front();
      }
      if (queue.active->operation->one_sided()) return AdvanceOneSided(communicator, queue);
      auto& run = queue.active->plan->run;
      const auto progress = run.Advance(0, 1);
      if (progress == host::Run::Progress::faulted) {
        Drop(communicator, part, communicator.Explain(*queue.active, run.fault(0, 1)));
      } else if (progress == host::Run::Progress::done) {
        const auto disagreement = communicator.operations().End(*queue.active);
        queue.active.reset();
        if (disagreement) Drop(communicator, part, *disagreement);
      }
      return progress != host::Run::Progress::blocked;
    } catch (const std::exception& exception) {
      Drop(communicator, part, AsError(exception));
      return true;
    }
  }

  static bool AdvanceOneSided(comm::Communicator& communicator, Queue& queue) {
    if (!communicator.operations().AdvanceOneSided(*queue.active)) return false;
    if (queue.active->operation->collective != schedule::Collective::wait_signal) communicator.WakeOwn();
    queue.active.reset();
    return true;
  }

  void Look(std::chrono::steady_clock::duration waited) {
    for (auto& [communicator, part] : parts_) {
      for (auto& queue : part.queues) {
        if (!queue.active) continue;
        const auto* const plan = queue.active->plan;
        const diagnostics::Awaited awaited{plan != nullptr ? plan->run.WaitsFor(0, 1)
                                                           : std::vector{queue.active->operation->root}};
        if (const auto failure = communicator->Look(*queue.active, awaited, waited)) {
          Drop(*communicator, part, *failure);
        }
      }
    }
  }

  static void Drop(comm::Communicator& communicator, Part& part, const Error& failure) {
    const auto kept = communicator.Fail(failure);
    if (!part.failure) part.failure = kept;
    for (auto& queue : part.queues) {
      if (queue.active && queue.active->plan != nullptr) queue.active->plan->run.Recall();
      queue.active.reset();
      queue.waiting.clear();
    }
  }

  // The k-th send to oneself matches the k-th receive from oneself; without a partner it would wait forever.
  static void CopyMessagesToOneself(const comm::Communicator& communicator, Part& part) {
    const auto& [queues, sends, receives, failure] = part;
    try {
      plan::RequireOwnMessagesMatch(communicator.rank(), sends, receives);
    } catch (const Error& error) {
      part.failure = error;
      return;
    }
    for (std::size_t i = 0; i < sends.size(); ++i) {
      const auto bytes = sends[i]->count * SizeOf(sends[i]->type);
      if (bytes != 0) std::memmove(receives[i]->output, sends[i]->input, bytes);
    }
  }

  LockedTogether locked_;
  const Left& left_;
  Parts parts_;
  std::optional<Error> first_failure_;
};

}  // namespace

std::optional<Error> RunAll(std::span<const Launched> group, host::WhoWaits who, const Left& left) {
  if (group.empty()) return std::nullopt;
  return GroupRun(group, left).Drive(who);
}

}  // namespace tutti::launch
