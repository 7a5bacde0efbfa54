#include "src/launch/group.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "base/threads/quiet_thread.h"
#include "src/launch/calls.h"
#include "src/launch/device_launcher.h"
#include "src/launch/locked_together.h"
#include "src/launch/shared_task.h"

namespace tutti::launch {

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

// Where a call runs: on the GPU that holds its buffers; else on its stream; in the communicator's own thread if the
// call must not block; else here. Throws tuttiInvalidArgument if stream, buffers and communicator do not fit together.
RunPlace PlaceOf(tuttiComm& handle, const plan::Operation& operation, tuttiStream_t stream) {
  if (stream != nullptr) {
    if (auto ours = FindStream(stream)) {
      const bool has_device = handle.communicator != nullptr && handle.communicator->device() != nullptr;
      if (operation.one_sided() && has_device) {
        Throw(tuttiInvalidArgument,
              "stream is one of tuttiStreamCreate, but one-sided calls of a communicator with a device run on the "
              "device");
      }
      return {std::move(ours)};
    }
  }
  // If the communicator could not be made, the call is refused when it runs.
  const auto* const communicator = handle.communicator.get();
  const auto* const device = communicator == nullptr ? nullptr : communicator->device();
  if (device != nullptr && operation.one_sided()) {
    return {nullptr, true, reinterpret_cast<cuda_transport::CuStream>(stream)};
  }
  if (device == nullptr) {
    memory::RequireHostCall(operation, stream,
                            communicator == nullptr ? std::string_view("it could not be made")
                                                    : std::string_view(communicator->why_no_device()));
  } else if (memory::IsForDevice(device->device(), operation, stream, device->known_buffers())) {
    return {nullptr, true, reinterpret_cast<cuda_transport::CuStream>(stream)};
  }
  if (handle.blocking) return {};
  return {handle.background};
}

// Enqueues calls on GPUs. Waits only for other ranks' calls, where launches are shared. REQUIRES: all calls' handles are
// entered.
tuttiResult_t EnqueueOnDevices(const std::vector<Call>& calls, const Admission& one) {
  std::vector<DeviceLaunched> launched;
  LockedTogether::Members communicators;
  for (const auto& call : calls) {
    auto* const communicator = call.handle->communicator.get();
    launched.push_back({communicator, &call.operation, call.place.cuda_stream});
    communicators.insert(communicator);
  }
  const auto aborted = [&] {
    return std::ranges::any_of(calls, [](const Call& call) { return call.handle->life.Look().aborting(); });
  };
  const LockedTogether locked(std::move(communicators), aborted);
  if (!locked) return Remember(nullptr, AbortedBefore(one));
  // Another thread may have suspended one since the call was checked.
  for (const auto& call : calls) {
    const auto result = Guard(call.handle.get(), [&] { call.handle->communicator->RequireResumed(); });
    if (result != tuttiSuccess) return result;
  }
  return Conclude(*calls.front().handle, EnqueueAll(launched));
}

tuttiResult_t Dispatch(const std::vector<Call>& calls) {
  GroupOfCalls on_host;
  std::vector<Call> on_devices;
  Admissions inside;
  for (const auto& call : calls) {
    const auto result = Guard(call.handle.get(), [&] {  // a group's end has no handle
      if (call.place.on_device) {
        inside.push_back(Admission::ForOperation(call.handle));
        on_devices.push_back(call);
      } else {
        on_host.Add(call);
      }
      Usable(*call.handle).Check(call.operation);
    });
    if (result != tuttiSuccess) return result;
  }
  if (!on_devices.empty()) {
    const auto result = EnqueueOnDevices(on_devices, *inside.front());
    if (result != tuttiSuccess || on_host.empty()) return result;
    inside.clear();
  }
  return GroupOfCalls::Run(std::move(on_host));
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

// Nothing is copied or allocated.
tuttiResult_t RunHere(tuttiComm& handle, const plan::Operation& operation) {
  auto& communicator = Usable(handle);
  const std::lock_guard lock(communicator);
  communicator.Check(operation);
  return Conclude(handle, RunOne(communicator, operation, host::WhoWaits::caller));
}

// Submits any call, also one that joins a group, or runs on a stream or a GPU.
tuttiResult_t SubmitElsewhere(tuttiComm& handle, const plan::Operation& operation, tuttiStream_t stream) {
  auto place = PlaceOf(handle, operation, stream);
  if (open_groups > 0) {
    ThisThreadsGroup().calls.push_back({handle.shared_from_this(), operation, std::move(place)});
    return tuttiSuccess;
  }
  if (operation.point_to_point() && operation.root == handle.rank.load(std::memory_order_relaxed)) {
    Throw(tuttiInvalidUsage, "peer {} is this rank itself: put the send and its receive in one group", operation.root);
  }
  if (place.on_device || place.stream != nullptr || operation.one_sided() || CallsWait(handle)) {
    return Dispatch({{handle.shared_from_this(), operation, std::move(place)}});
  }
  return RunHere(handle, operation);
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
    const auto calls_result = Dispatch(std::move(calls));
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

tuttiResult_t Submit(tuttiComm& handle, const plan::Operation& operation, tuttiStream_t stream) {
  const bool usual = open_groups == 0 && stream == nullptr && operation.collective_call() && RunsInCaller(handle) &&
                     !CallsWait(handle);
  return usual ? RunHere(handle, operation) : SubmitElsewhere(handle, operation, stream);
}

tuttiResult_t SubmitTogether(tuttiComm& handle, std::span<const plan::Operation> operations, tuttiStream_t stream) {
  std::vector<Call> calls;
  for (const auto& operation : operations) {
    calls.push_back({handle.shared_from_this(), operation, PlaceOf(handle, operation, stream)});
  }
  if (open_groups == 0) return Dispatch(std::move(calls));
  auto& collected = ThisThreadsGroup().calls;
  std::ranges::move(calls, std::back_inserter(collected));
  return tuttiSuccess;
}

tuttiResult_t SubmitJoin(Join join) {
  if (open_groups > 0) {
    ThisThreadsGroup().joins.push_back(std::move(join));
    return tuttiSuccess;
  }
  return DispatchJoins({std::move(join)});
}

}  // namespace tutti::launch
