#include "src/launcher.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "base/datatype.h"

namespace tutti {
namespace {

Error AsError(const std::exception& exception) {
  const auto* error = dynamic_cast<const Error*>(&exception);
  return error != nullptr ? *error : Error(tuttiInternalError, exception.what());
}

// Advances every `stride`-th channel from `first` on.
Run::Progress AdvanceChannels(const Active& active, Communicator& communicator, std::size_t first, std::size_t stride,
                              std::optional<Error>& fault) {
  auto& run = active.plan->run;
  bool moved = false, done = true;
  for (std::size_t c = first; c < run.channels(); c += stride) {
    const auto progress = run.Advance(c);
    if (progress == Run::Progress::faulted) {
      fault = communicator.Explain(active, run.fault(c));
      return progress;
    }
    moved = moved || progress == Run::Progress::moved;
    done = done && progress == Run::Progress::done;
  }
  return done ? Run::Progress::done : moved ? Run::Progress::moved : Run::Progress::blocked;
}

// What was filled goes out at once, and what has come in is there at the next sweep. Who is done waits for nothing, but
// peers may wait for the news of what it has emptied. True: something moved.
bool MoveNetwork(const Communicator& communicator, bool done) {
  auto* const network = communicator.network();
  return network != nullptr && (done ? network->Push() : network->Progress());
}

// A sweep of one operation.
Run::Progress Sweep(const Active& active, Communicator& communicator, std::size_t first, std::size_t stride,
                    std::optional<Error>& fault) {
  const auto progress = AdvanceChannels(active, communicator, first, stride, fault);
  const bool moved = MoveNetwork(communicator, progress == Run::Progress::done);
  return moved && progress == Run::Progress::blocked ? Run::Progress::moved : progress;
}

// With helper threads, each drives its own channels. The caller also looks for faults, until the last helper is done.
std::optional<Error> DriveTogether(const Active& active, Communicator& communicator, Crew& crew, WhoWaits who) {
  const auto stride = static_cast<std::size_t>(crew.size());
  std::optional<Error> failure;
  crew.Work([&](int index) {
    std::optional<Error> fault;
    const auto sweep = [&] {
      const auto progress = Sweep(active, communicator, static_cast<std::size_t>(index), stride, fault);
      const bool waits = progress == Run::Progress::done && index == 0 && crew.helpers_busy();
      return waits ? Run::Progress::blocked : progress;
    };
    if (index == 0) {
      communicator.driver(who).Drive(sweep, [&](auto waited) {
        failure = communicator.Look(active, waited);
        return !failure;
      });
      if (fault) failure = fault;
      // Frees the helpers from their waits.
      if (failure) failure = communicator.Fail(*failure);
    } else {
      auto driver = communicator.MakeDriver(who);
      driver.Drive(sweep, [&](auto) { return !communicator.failed(); });
      if (fault) communicator.Fail(*fault);
    }
  });
  return communicator.failed() ? communicator.failure() : failure;
}

std::optional<Error> DriveAlone(const Active& active, Communicator& communicator, WhoWaits who) {
  std::optional<Error> failure;
  const auto result = communicator.driver(who).Drive([&] { return Sweep(active, communicator, 0, 1, failure); },
                                                     [&](auto waited) {
                                                       failure = communicator.Look(active, waited);
                                                       return !failure;
                                                     });
  return result == DriveResult::done ? std::nullopt : failure;
}

}  // namespace

std::optional<Error> RunOne(Communicator& communicator, const Operation& operation, WhoWaits who) {
  if (communicator.failed()) return communicator.failure();
  try {
    communicator.TrimPlans();
    const Active active = communicator.Begin(operation);
    Crew* const crew = active.plan->run.channels() > 1 ? communicator.crew() : nullptr;
    const auto failure =
        crew == nullptr ? DriveAlone(active, communicator, who) : DriveTogether(active, communicator, *crew, who);
    if (failure) return communicator.Fail(*failure);
    communicator.End(active);
    return std::nullopt;
  } catch (const std::exception& exception) {
    // Half-begun on this rank only: the peers must not wait for the rest.
    return communicator.Fail(AsError(exception));
  }
}

namespace {

// The operations of one communicator that must keep an order among themselves.
struct Queue {
  Communicator* communicator;
  std::deque<const Operation*> waiting;
  std::optional<Active> active;
};

class GroupRun {
 public:
  explicit GroupRun(std::span<const Launched> group) {
    for (const auto& item : group) communicators_.insert(item.communicator);
    // A fixed order of locking, so that two groups in two threads cannot wait for each other.
    for (auto* communicator : communicators_) {
      communicator->lock();
      if (!communicator->failed()) communicator->TrimPlans();
    }
    CopyMessagesToOneself(group);
    std::map<std::tuple<Communicator*, int, int>, std::size_t> places;
    for (const auto& item : group) {
      const auto& operation = item.operation;
      const bool message = operation.point_to_point();
      if (message && operation.root == item.communicator->rank()) continue;
      const auto key = std::tuple(item.communicator, message ? static_cast<int>(operation.collective) : -1,
                                  message ? operation.root : -1);
      const auto [place, fresh] = places.emplace(key, queues_.size());
      if (fresh) queues_.push_back({item.communicator, {}, std::nullopt});
      queues_[place->second].waiting.push_back(&operation);
    }
  }
  ~GroupRun() {
    for (auto* communicator : communicators_) communicator->unlock();
  }
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  std::optional<Error> Drive(WhoWaits who) {
    const bool one = communicators_.size() == 1;
    Driver several(nullptr, (*communicators_.begin())->wait_policy(who));
    Driver& driver = one ? (*communicators_.begin())->driver(who) : several;
    driver.Drive([&] { return Sweep(); },
                 [&](auto waited) {
                   Look(waited);
                   return true;  // a failed communicator's queues are empty; the sweep finds out
                 });
    return first_failure_;
  }

 private:
  Run::Progress Sweep() {
    bool moved = false, done = true;
    for (auto& queue : queues_) {
      if (!queue.active && queue.waiting.empty()) continue;
      moved = Advance(queue) || moved;
      done = done && !queue.active && queue.waiting.empty();
    }
    for (const auto* communicator : communicators_) moved = MoveNetwork(*communicator, done) || moved;
    return done ? Run::Progress::done : moved ? Run::Progress::moved : Run::Progress::blocked;
  }

  bool Advance(Queue& queue) {
    auto& communicator = *queue.communicator;
    if (communicator.failed()) {
      Drop(communicator, *communicator.failure());
      return true;
    }
    try {
      if (!queue.active) {
        queue.active = communicator.Begin(*queue.waiting.front());
        queue.waiting.pop_front();
      }
      std::optional<Error> fault;
      const auto progress = AdvanceChannels(*queue.active, communicator, 0, 1, fault);
      if (progress == Run::Progress::faulted) {
        Drop(communicator, *fault);
      } else if (progress == Run::Progress::done) {
        communicator.End(*queue.active);
        queue.active.reset();
      }
      return progress != Run::Progress::blocked;
    } catch (const std::exception& exception) {
      Drop(communicator, AsError(exception));
      return true;
    }
  }

  void Look(std::chrono::steady_clock::duration waited) {
    for (auto& queue : queues_) {
      if (!queue.active) continue;
      if (const auto failure = queue.communicator->Look(*queue.active, waited)) Drop(*queue.communicator, *failure);
    }
  }

  void Drop(Communicator& communicator, const Error& failure) {
    const auto first = communicator.Fail(failure);
    if (!first_failure_) first_failure_ = first;
    for (auto& queue : queues_) {
      if (queue.communicator != &communicator) continue;
      queue.active.reset();
      queue.waiting.clear();
    }
  }

  // The k-th send to oneself meets the k-th receive from oneself; without a partner it would wait for ever.
  void CopyMessagesToOneself(std::span<const Launched> group) {
    struct Own {
      std::vector<const Operation*> sends, receives;
    };
    std::map<Communicator*, Own> own;
    for (const auto& item : group) {
      if (!item.operation.point_to_point() || item.operation.root != item.communicator->rank()) continue;
      auto& messages = own[item.communicator];
      (item.operation.collective == Collective::send ? messages.sends : messages.receives).push_back(&item.operation);
    }
    for (const auto& [communicator, messages] : own) {
      const auto& [sends, receives] = messages;
      try {
        RequireOwnMessagesMatch(communicator->rank(), sends, receives);
      } catch (const Error& error) {
        if (!first_failure_) first_failure_ = error;
        continue;
      }
      for (std::size_t i = 0; i < sends.size(); ++i) {
        const auto bytes = sends[i]->count * SizeOf(sends[i]->type);
        if (bytes != 0) std::memmove(receives[i]->output, sends[i]->input, bytes);
      }
    }
  }

  std::set<Communicator*> communicators_;
  std::vector<Queue> queues_;
  std::optional<Error> first_failure_;
};

}  // namespace

std::optional<Error> RunAll(std::span<const Launched> group, WhoWaits who) {
  if (group.empty()) return std::nullopt;
  return GroupRun(group).Drive(who);
}

}  // namespace tutti
