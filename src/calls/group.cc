#include "src/calls/group.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "base/threads/quiet_thread.h"
#include "src/calls/calls.h"
#include "src/calls/streams/shared_task.h"

namespace tutti::calls {

constinit thread_local int open_groups = 0;

namespace {

struct Group {
  std::vector<Call> calls;
  std::vector<Join> joins;
  std::optional<Error> failure;  // of the first call that failed
};

std::unique_ptr<Group>& ThisThreadsPlace() {
  thread_local std::unique_ptr<Group> group;
  return group;
}

Group& ThisThreadsGroup() {
  auto& group = ThisThreadsPlace();
  if (group == nullptr) group = std::make_unique<Group>();
  return *group;
}

// In a forked child: the open group is the parent's. Its calls and joins are not undone here, which could reach the
// communicators and other ranks, but forgotten.
void ForgetGroup() {
  open_groups = 0;
  static_cast<void>(ThisThreadsPlace().release());
}

void ForgetGroupsInChildren() {
  static constinit std::atomic<bool> told{false};
  if (!told.exchange(true, std::memory_order_relaxed)) pthread_atfork(nullptr, nullptr, &ForgetGroup);
}

struct TurnedJoin {
  Join join;
  std::shared_ptr<Turn> turn;  // on the join's parent; null without one
};

// Runs all joins at once, each in its own thread. Returns the first failure, which this thread remembers.
tuttiResult_t RunJoins(std::vector<TurnedJoin> joins) {
  if (joins.size() == 1) return joins[0].join.body(nullptr, std::move(joins[0].turn));
  std::vector<Error> results(joins.size(), Error(tuttiSuccess, ""));
  std::vector<std::thread> threads;
  threads.reserve(joins.size());
  try {
    for (std::size_t i = 0; i < joins.size(); ++i) {
      threads.push_back(QuietThread([&, i] {
        const auto code = joins[i].join.body(nullptr, std::move(joins[i].turn));
        if (code != tuttiSuccess) results[i] = Error(code, LastError(nullptr));
      }));
    }
  } catch (const std::system_error& error) {
    // The joins that were started would wait for those that were not.
    for (const auto& each : joins) each.join.runner->cancel.store(true, std::memory_order_relaxed);
    const Error failure(tuttiSystemError,
                        fmt::format("cannot start a thread for each communicator to join: {}", error.what()));
    for (auto i = threads.size(); i < joins.size(); ++i) joins[i].join.fail(failure);
    for (auto& thread : threads) thread.join();
    return Remember(nullptr, failure);
  }
  for (auto& thread : threads) thread.join();
  const auto failed = std::ranges::find_if(results, [](const auto& each) { return each.code() != tuttiSuccess; });
  return failed == results.end() ? tuttiSuccess : Remember(nullptr, *failed);
}

// REQUIRES: QueueingOrder() is held.
void QueueJoin(Join& join, std::shared_ptr<Turn> turn) {
  const auto queued = std::make_shared<Admissions>();
  for (const auto& handle : join.waiting) queued->push_back(Admission::ForJoin(handle));
  const auto background = join.runner->background;  // an abort may take it from its handle once none is inside
  for (const auto& each : *queued) each->WaitOutside();
  background->Enqueue([body = std::move(join.body), queued, turn = std::move(turn)]() mutable {
    const auto result = body(queued.get(), std::move(turn));
    queued->clear();
    return result;
  });
}

tuttiResult_t DispatchJoins(std::vector<Join> joins) {
  std::vector<TurnedJoin> here;
  std::vector<std::pair<Join, Error>> refused;
  {
    const std::lock_guard lock(QueueingOrder());
    for (auto& join : joins) {
      std::shared_ptr<Turn> turn = join.parent == nullptr ? nullptr : TakeTurn(join.parent);
      if (join.runner->blocking) {
        here.push_back({std::move(join), std::move(turn)});
        continue;
      }
      const auto result = Guard(nullptr, [&] { QueueJoin(join, std::move(turn)); });
      if (result != tuttiSuccess) refused.emplace_back(std::move(join), Error(result, LastError(nullptr)));
    }
  }
  const bool in_progress = here.size() + refused.size() < joins.size();
  for (const auto& [join, why] : refused) join.fail(why);
  const auto result = here.empty() ? tuttiSuccess : RunJoins(std::move(here));
  if (result != tuttiSuccess) return result;
  if (!refused.empty()) return Remember(nullptr, refused.front().second);
  return in_progress ? tuttiInProgress : tuttiSuccess;
}

// Throws tuttiInvalidUsage if no group is open.
void CloseGroup(std::string_view call) {
  if (open_groups == 0) Throw(tuttiInvalidUsage, "{} without tuttiGroupStart in this thread", call);
  --open_groups;
}

// Makes none of the communicators.
void FailJoins(const std::vector<Join>& joins, const Error& failure) {
  for (const Join& join : joins) join.fail(failure);
}

}  // namespace

void StartGroup() {
  if (open_groups == 0) ForgetGroupsInChildren();
  ++open_groups;
}

GroupMark MarkGroup() {
  const auto& group = ThisThreadsGroup();
  return {open_groups, group.calls.size(), group.joins.size()};
}

void AbandonGroup(const GroupMark& mark) {
  auto& group = ThisThreadsGroup();
  open_groups = mark.depth;
  group.calls.resize(std::min(group.calls.size(), mark.calls));
  group.joins.resize(std::min(group.joins.size(), mark.joins));
}

void FailGroup(tuttiResult_t failure) {
  auto& kept = ThisThreadsGroup().failure;
  if (!kept) kept = Error(failure, LastError(nullptr));
}

tuttiResult_t EndGroup() {
  auto& group = ThisThreadsGroup();
  CloseGroup("tuttiGroupEnd");
  if (open_groups > 0) return tuttiSuccess;
  auto joins = std::exchange(group.joins, {});
  auto calls = std::exchange(group.calls, {});
  if (const auto failure = std::exchange(group.failure, std::nullopt)) {
    FailJoins(joins, *failure);
    throw *failure;
  }
  auto result = joins.empty() ? tuttiSuccess : DispatchJoins(std::move(joins));
  if (!calls.empty() && (result == tuttiSuccess || result == tuttiInProgress)) {
    const auto calls_result = Run(calls);
    if (calls_result != tuttiSuccess) result = calls_result;
  }
  return result;
}

double SimulateGroup() {
  auto& group = ThisThreadsGroup();
  CloseGroup("tuttiGroupSimulateEnd");
  if (open_groups > 0) return 0;
  const auto joins = std::exchange(group.joins, {});
  const auto calls = std::exchange(group.calls, {});
  const auto failure = std::exchange(group.failure, std::nullopt);
  FailJoins(joins, failure.value_or(Error(tuttiInvalidUsage, "the group that should make comm was only simulated")));
  if (failure) throw *failure;
  std::map<tuttiComm*, double> us;
  for (const Call& call : calls) {
    const Operating operating(call.handle.get());
    auto& communicator = Usable(*call.handle);
    const std::lock_guard lock(communicator);
    us[call.handle.get()] += communicator.EstimatedMicroseconds(call.operation, call.place.on_device);
  }
  double longest = 0;
  for (const auto& [handle, sum] : us) longest = std::max(longest, sum);
  return longest;
}

namespace {

// A call that may run after its caller has left the site.
Call Leaving(tuttiComm& handle, plan::Operation operation, RunPlace place) {
  operation.site_text = plan::CurrentSiteText();
  return {handle.shared_from_this(), std::move(operation), std::move(place)};
}

}  // namespace

tuttiResult_t Submit(tuttiComm& handle, const plan::Operation& operation, tuttiStream_t stream) {
  // Most calls need none of what follows.
  if (open_groups == 0 && stream == nullptr && operation.collective_call() && RunsInCaller(handle) &&
      !CallsWait(handle))
    return RunHere(handle, operation);
  auto place = PlaceOf(handle, operation, stream);
  if (open_groups > 0) {
    ThisThreadsGroup().calls.push_back(Leaving(handle, operation, std::move(place)));
    return tuttiSuccess;
  }
  if (operation.point_to_point() && operation.root == handle.rank.load(std::memory_order_relaxed)) {
    Throw(tuttiInvalidUsage, "peer {} is this rank itself: put the send and its receive in one group", operation.root);
  }
  const bool here = !place.on_device && place.stream == nullptr && !operation.one_sided() && !CallsWait(handle);
  return here ? RunHere(handle, operation) : Run({Leaving(handle, operation, std::move(place))});
}

tuttiResult_t SubmitTogether(tuttiComm& handle, std::span<const plan::Operation> operations, tuttiStream_t stream) {
  std::vector<Call> calls;
  for (const auto& operation : operations) {
    calls.push_back(Leaving(handle, operation, PlaceOf(handle, operation, stream)));
  }
  if (open_groups == 0) return Run(calls);
  auto& collected = ThisThreadsGroup().calls;
  std::ranges::move(calls, std::back_inserter(collected));
  return tuttiSuccess;
}

tuttiResult_t SubmitJoin(Join join) {
  join.body = [body = std::move(join.body), kept = plan::KeptSite()](const Admissions* queued,
                                                                     std::shared_ptr<Turn> turn) {
    const plan::WorkOf work(kept);
    return body(queued, std::move(turn));
  };
  if (open_groups > 0) {
    ThisThreadsGroup().joins.push_back(std::move(join));
    return tuttiSuccess;
  }
  return DispatchJoins({std::move(join)});
}

}  // namespace tutti::calls
