#include "src/calls/group_run.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "base/numbers/datatype.h"

namespace tutti::calls {

void EndPart(Part& part, const std::optional<Error>& failure) {
  auto& handle = part.admission->handle();
  if (failure) {
    Remember(&handle, *failure);
    if (part.in_background) KeepForAsyncError(handle, failure->code());
  }
  part.admission->Leave();
}

Error AbortedBefore(const Admission& admission) {
  return admission.pending()
             ? Error(tuttiRemoteError, "comm was aborted before a call that was queued on a stream began")
             : Error(tuttiInvalidArgument, "comm was aborted before the call began");
}

struct GroupRun::Queue {
  std::deque<const plan::Operation*> waiting;
  std::optional<host_side::Active> active;

  bool over() const { return !active && waiting.empty(); }
};

struct GroupRun::Running {
  explicit Running(Part& its_part) : part(&its_part) {}

  Part* part;
  comm::Communicator* communicator = nullptr;  // once it has begun; locked
  bool begun = false;                          // or will not
  std::vector<Queue> queues;
  std::optional<Error> failure;

  void Drop(const Error& why) {
    const auto kept = communicator->Fail(why);
    if (!failure) failure = kept;
    for (auto& queue : queues) {
      if (queue.active && queue.active->plan != nullptr) queue.active->plan->run.Recall();
      queue.active.reset();
      queue.waiting.clear();
    }
  }
};

namespace {

// The k-th send to oneself matches the k-th receive from oneself; without a partner it would wait forever.
void CopyMessagesToOneself(int rank, const std::vector<const plan::Operation*>& sends,
                           const std::vector<const plan::Operation*>& receives) {
  plan::RequireOwnMessagesMatch(rank, sends, receives);
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const auto bytes = sends[i]->count * SizeOf(sends[i]->type);
    if (bytes != 0) std::memmove(receives[i]->output, sends[i]->input, bytes);
  }
}

// Puts and signals go on whatever other threads do on the communicator. Only the driving thread may record them.
std::optional<Error> SendAll(comm::Communicator& communicator, const std::vector<plan::Operation>& operations) {
  if (communicator.failed()) return communicator.failure();
  for (const auto& operation : operations) {
    const std::unique_lock lock(communicator, std::try_to_lock);
    std::optional<host_side::Active> recorded;
    if (lock) recorded = communicator.host().operations().BeginOneSided(operation);
    communicator.host().operations().Send(operation);
    if (recorded) communicator.host().operations().EndOneSided(*recorded);
  }
  communicator.host().WakeSleepers();
  return std::nullopt;
}

bool AdvanceOneSided(comm::Communicator& communicator, std::optional<host_side::Active>& active) {
  if (!communicator.host().operations().Take(*active->operation)) return false;
  communicator.host().operations().EndOneSided(*active);
  active.reset();
  return true;
}

constexpr int kNoCores = 0;  // nothing runs yet, so a spinning thread would only be in the way

}  // namespace

GroupRun::GroupRun(std::span<Part> parts) {
  for (auto& part : parts) all_.emplace_back(part);
}

GroupRun::~GroupRun() {
  while (!all_.empty()) Leave(all_.begin());
}

bool GroupRun::Drive(host::WhoWaits who, const std::function<bool(std::size_t)>& has_arrived,
                     const std::function<bool()>& stop) {
  const auto look = [&](auto waited) {
    Look(waited);
    return !stop();  // a failed communicator's queues are empty; the sweep finds out
  };
  if (all_.size() == 1 && !all_.front().begun && !all_.front().part->sends &&
      std::ranges::all_of(all_.front().part->streams, has_arrived)) {
    AwaitAndBegin(all_.front());
  } else if (SweepAll(has_arrived) == host::Run::Progress::done) {
    return true;
  }
  if (auto& last = all_.front(); all_.size() == 1 && last.begun) {
    // It waits on its own doorbell.
    const auto sweep = [&] { return Sweep(last); };
    if (last.communicator != nullptr &&
        last.communicator->host().driver(who).Drive(sweep, look) != host::DriveResult::done) {
      return false;
    }
    Leave(all_.begin());
    return true;
  }
  if (std::ranges::none_of(all_, [&](const Running& part) {
        return part.begun || std::ranges::all_of(part.part->streams, has_arrived);
      })) {
    return false;
  }
  const auto sweep = [&] { return SweepAll(has_arrived); };
  return host::Driver(nullptr, PolicyFor(who)).Drive(sweep, look) == host::DriveResult::done;
}

host::WaitPolicy GroupRun::PolicyFor(host::WhoWaits who) const {
  const auto begun = std::ranges::find_if(all_, [](const Running& part) { return part.communicator != nullptr; });
  return begun != all_.end() ? begun->communicator->host().wait_policy(who)
                             : host::ChooseWaitPolicy("", 1, kNoCores, who);
}

bool GroupRun::TryBegin(Running& part, const std::function<bool(std::size_t)>& has_arrived) {
  auto& admission = *part.part->admission;
  if (!std::ranges::all_of(part.part->streams, has_arrived)) return false;
  switch (admission.Ask()) {
    case Admission::State::waits: return false;
    case Admission::State::gone: part.failure = AbortedBefore(admission); break;
    case Admission::State::inside:
      auto& communicator = *admission.handle().communicator;
      if (part.part->sends) {
        part.failure = SendAll(communicator, part.part->operations);
      } else if (communicator.try_lock()) {
        Begin(part);
      } else {
        return false;
      }
  }
  part.begun = true;
  return true;
}

void GroupRun::AwaitAndBegin(Running& part) {
  if (part.part->admission->Await() == Admission::State::inside) {
    part.part->admission->handle().communicator->lock();
    Begin(part);
  } else {
    part.failure = AbortedBefore(*part.part->admission);
    part.begun = true;
  }
}

void GroupRun::Begin(Running& part) {
  auto& communicator = *part.part->admission->handle().communicator;
  part.communicator = &communicator;
  part.begun = true;
  std::map<std::pair<schedule::Collective, int>, std::size_t> places;
  std::vector<const plan::Operation*> to_itself, from_itself;
  for (const auto& operation : part.part->operations) {
    const bool message = operation.point_to_point();
    if (message && operation.root == communicator.rank()) {
      (operation.collective == schedule::Collective::send ? to_itself : from_itself).push_back(&operation);
      continue;
    }
    // All collectives are in one queue, under the name of one of them.
    const auto kind = operation.collective_call() ? schedule::Collective::barrier : operation.collective;
    const auto [place, fresh] = places.emplace(std::pair(kind, message ? operation.root : -1), part.queues.size());
    if (fresh) part.queues.emplace_back();
    auto& waiting = part.queues[place->second].waiting;
    waiting.push_back(&operation);
    if (MustCheck(communicator, operation)) waiting.push_back(&CheckingBarrier());
  }
  if (!communicator.failed()) communicator.host().operations().Trim();
  communicator.host().SideBySide(part.queues.size() > 1);
  try {
    CopyMessagesToOneself(communicator.rank(), to_itself, from_itself);
  } catch (const Error& error) {
    part.failure = error;
  }
}

host::Run::Progress GroupRun::Sweep(Running& part) {
  auto& communicator = *part.communicator;
  const auto advance = [&](Queue& queue) {
    if (communicator.failed()) {
      part.Drop(*communicator.failure());
      return true;
    }
    try {
      if (!queue.active) {
        const auto& next = *queue.waiting.front();
        auto& operations = communicator.host().operations();
        const auto* const before = operations.Before(next);
        if (before != nullptr) {
          queue.active = operations.Begin(*before);
        } else {
          queue.active = next.one_sided() ? operations.BeginOneSided(next) : operations.Begin(next);
          queue.waiting.pop_front();
        }
      }
      if (queue.active->operation->one_sided()) return AdvanceOneSided(communicator, queue.active);
      auto& run = queue.active->plan->run;
      const auto progress = run.Advance(0, 1);
      if (progress == host::Run::Progress::faulted) {
        part.Drop(communicator.host().Explain(*queue.active, run.fault(0, 1)));
      } else if (progress == host::Run::Progress::done) {
        const auto disagreement = communicator.host().operations().End(*queue.active);
        queue.active.reset();
        if (disagreement) part.Drop(*disagreement);
      }
      return progress != host::Run::Progress::blocked;
    } catch (...) {
      part.Drop(comm::CurrentFailure());
      return true;
    }
  };
  bool moved = false, done = true;
  for (auto& queue : part.queues) {
    if (queue.over()) continue;
    moved = advance(queue) || moved;
    done = done && queue.over();
  }
  moved = communicator.host().MoveNetwork(done) || moved;
  return done ? host::Run::Progress::done : moved ? host::Run::Progress::moved : host::Run::Progress::blocked;
}

host::Run::Progress GroupRun::SweepAll(const std::function<bool(std::size_t)>& has_arrived) {
  bool moved = false;
  for (auto part = all_.begin(); part != all_.end();) {
    if (!part->begun && !TryBegin(*part, has_arrived)) {
      ++part;
      continue;
    }
    const auto progress = part->communicator != nullptr ? Sweep(*part) : host::Run::Progress::done;
    moved = moved || progress != host::Run::Progress::blocked;
    part = progress == host::Run::Progress::done ? Leave(part) : std::next(part);
  }
  return all_.empty() ? host::Run::Progress::done : moved ? host::Run::Progress::moved : host::Run::Progress::blocked;
}

// This part is over, and the others go on without it.
GroupRun::All::iterator GroupRun::Leave(All::iterator which) {
  if (which->failure && !first_failure_) first_failure_ = which->failure;
  if (which->communicator != nullptr) {
    which->communicator->host().SideBySide(false);
    which->communicator->unlock();
  }
  EndPart(*which->part, which->failure);
  return all_.erase(which);
}

void GroupRun::Look(std::chrono::steady_clock::duration waited) {
  for (auto& part : all_) {
    for (auto& queue : part.queues) {
      if (!queue.active) continue;
      const auto* const plan = queue.active->plan;
      const diagnostics::Awaited awaited{plan != nullptr ? plan->run.WaitsFor(0, 1)
                                                         : std::vector{queue.active->operation->root}};
      if (const auto failure = part.communicator->host().Look(*queue.active, awaited, waited)) {
        part.Drop(*failure);
        break;
      }
    }
  }
}

}  // namespace tutti::calls
