#include "src/group.h"

#include <algorithm>
#include <deque>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "base/quiet_thread.h"
#include "src/device_buffers.h"
#include "src/device_launcher.h"

namespace tutti {
namespace {

struct RunPlace {
  Stream* stream = nullptr;  // null: synchronous
  bool on_device = false;
  CuStream cuda_stream = nullptr;
};

struct Call {
  tuttiComm* handle;
  Operation operation;
  RunPlace place;
};

struct Join {
  tuttiComm* handle;
  std::function<tuttiResult_t()> body;
};

struct Group {
  int depth = 0;
  std::vector<Call> calls;
  std::vector<Join> joins;
};

Group& ThisThreadsGroup() {
  thread_local Group group;
  return group;
}

// Where a call runs: on the GPU whose memory its buffers are; else on its stream; in the communicator's own thread if
// the call must not block; else here. Throws tuttiInvalidArgument if stream, buffers and communicator do not fit.
RunPlace PlaceOf(tuttiComm& handle, const Operation& operation, tuttiStream_t stream) {
  Stream* const ours = stream == nullptr ? nullptr : FindStream(stream);
  if (ours != nullptr) return {ours};
  // While a communicator is being made, or has failed, whoever runs the call finds out.
  const auto* const communicator = handle.communicator.get();
  const auto* const device = communicator == nullptr ? nullptr : communicator->device();
  if (device == nullptr) {
    static const std::string kNotMade = "it is still being made";
    RequireHostCall(operation, stream, communicator == nullptr ? kNotMade : communicator->why_no_device());
  } else if (IsForDevice(device->device(), operation, stream)) {
    return {nullptr, true, reinterpret_cast<CuStream>(stream)};
  }
  return {handle.blocking ? nullptr : handle.background.get()};
}

tuttiResult_t Conclude(const std::vector<Call>& calls, const std::optional<Error>& failure) {
  if (!failure) return tuttiSuccess;
  for (const auto& call : calls) {
    const std::lock_guard lock(call.handle->mutex);
    if (call.handle->first_failure == tuttiSuccess && call.handle->communicator->failed()) {
      call.handle->first_failure = failure->code();
    }
  }
  return Remember(calls.front().handle, *failure);
}

// Calls on GPUs: nothing is waited for but other ranks' calls, where launches are shared.
tuttiResult_t EnqueueOnDevices(const std::vector<Call>& calls) {
  std::vector<DeviceLaunched> launched;
  // A fixed order of locking, as for groups on the host (launcher.cc).
  std::set<tuttiComm*> handles;
  for (const auto& call : calls) {
    launched.push_back({call.handle->communicator.get(), &call.operation, call.place.cuda_stream});
    handles.insert(call.handle);
  }
  for (auto* handle : handles) handle->lock();
  const auto failure = EnqueueAll(launched);
  for (auto* handle : handles) handle->unlock();
  return Conclude(calls, failure);
}

tuttiResult_t RunCalls(const std::vector<Call>& calls, WhoWaits who) {
  if (calls.size() == 1 && !calls[0].operation.point_to_point()) {
    const std::lock_guard lock(*calls[0].handle);
    return Conclude(calls, RunOne(*calls[0].handle->communicator, calls[0].operation, who));
  }
  std::vector<Launched> launched;
  for (const auto& call : calls) launched.push_back({call.handle->communicator.get(), call.operation});
  return Conclude(calls, RunAll(launched, who));
}

// One task over several streams: each stream waits at it until all have come and the work is done.
void EnqueueAcross(const std::vector<Stream*>& streams, std::function<tuttiResult_t()> work) {
  auto done = std::make_shared<std::promise<tuttiResult_t>>();
  const std::shared_future<tuttiResult_t> result = done->get_future().share();
  auto missing = std::make_shared<std::atomic<std::size_t>>(streams.size());
  auto body = std::make_shared<std::function<tuttiResult_t()>>(std::move(work));
  for (auto* stream : streams) {
    stream->Enqueue([=] {
      // Whoever comes last works for all; acq_rel: it must see what the others' earlier tasks have done.
      if (missing->fetch_sub(1, std::memory_order_acq_rel) == 1) done->set_value((*body)());
      return result.get();
    });
  }
}

tuttiResult_t Dispatch(std::vector<Call> calls) {
  // Until the calls are done, or queued and counted.
  std::deque<Hold> holds;
  for (const auto& call : calls) {
    holds.emplace_back(*call.handle);
    try {
      Usable(call.handle).Check(call.operation);
    } catch (const Error& error) {
      return Remember(call.handle, error);  // a group's end knows no handle
    }
  }
  const auto on_host =
      std::stable_partition(calls.begin(), calls.end(), [](const Call& c) { return c.place.on_device; });
  if (on_host != calls.begin()) {
    const std::vector<Call> on_devices(calls.begin(), on_host);
    calls.erase(calls.begin(), on_host);
    const auto result = EnqueueOnDevices(on_devices);
    if (result != tuttiSuccess || calls.empty()) return result;
  }
  std::vector<Stream*> streams;
  bool waits = false;
  bool in_progress = false;
  for (const auto& call : calls) {
    auto* const stream = call.place.stream;
    if (stream == nullptr) {
      waits = true;
    } else if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
    in_progress = in_progress || stream == call.handle->background.get();
  }
  if (streams.empty()) return RunCalls(calls, WhoWaits::caller);
  for (const auto& call : calls) call.handle->pending.fetch_add(1, std::memory_order_relaxed);
  auto outcome = std::make_shared<std::promise<tuttiResult_t>>();
  auto future = outcome->get_future();
  // A caller that waits for some of them computes nothing meanwhile.
  const auto who = waits ? WhoWaits::caller : WhoWaits::stream;
  EnqueueAcross(streams, [calls = std::move(calls), outcome, who] {
    const auto result = RunCalls(calls, who);
    // Release: whoever sees the count fall to zero may free what we used.
    for (const auto& call : calls) call.handle->pending.fetch_sub(1, std::memory_order_release);
    outcome->set_value(result);
    return result;
  });
  if (waits) return future.get();
  return in_progress ? tuttiInProgress : tuttiSuccess;
}

tuttiResult_t RunJoins(std::vector<Join> joins) {
  if (joins.size() == 1) return joins[0].body();
  std::vector<tuttiResult_t> results(joins.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < joins.size(); ++i) {
    threads.push_back(QuietThread([&, i] { results[i] = joins[i].body(); }));
  }
  for (auto& thread : threads) thread.join();
  const auto failed = std::find_if(results.begin(), results.end(), [](auto code) { return code != tuttiSuccess; });
  return failed == results.end() ? tuttiSuccess : *failed;
}

tuttiResult_t DispatchJoins(std::vector<Join> joins) {
  std::vector<Join> here;
  bool in_progress = false;
  for (auto& join : joins) {
    if (join.handle->blocking) {
      here.push_back(std::move(join));
      continue;
    }
    in_progress = true;
    join.handle->pending.fetch_add(1, std::memory_order_relaxed);
    join.handle->background->Enqueue([join] {
      const auto result = join.body();
      join.handle->pending.fetch_sub(1, std::memory_order_release);
      return result;
    });
  }
  const auto result = here.empty() ? tuttiSuccess : RunJoins(std::move(here));
  return result == tuttiSuccess && in_progress ? tuttiInProgress : result;
}

}  // namespace

void StartGroup() { ++ThisThreadsGroup().depth; }

tuttiResult_t EndGroup() {
  auto& group = ThisThreadsGroup();
  if (group.depth == 0) Throw(tuttiInvalidUsage, "tuttiGroupEnd without tuttiGroupStart in this thread");
  if (--group.depth > 0) return tuttiSuccess;
  auto joins = std::exchange(group.joins, {});
  auto calls = std::exchange(group.calls, {});
  auto result = joins.empty() ? tuttiSuccess : DispatchJoins(std::move(joins));
  if (!calls.empty() && (result == tuttiSuccess || result == tuttiInProgress)) {
    const auto calls_result = Dispatch(std::move(calls));
    if (calls_result != tuttiSuccess) result = calls_result;
  }
  return result;
}

tuttiResult_t Submit(tuttiComm* handle, const Operation& operation, tuttiStream_t stream) {
  auto& group = ThisThreadsGroup();
  const auto place = [&] {
    const Hold hold(*handle);  // another thread may abort
    return PlaceOf(*handle, operation, stream);
  }();
  if (group.depth > 0) {
    group.calls.push_back({handle, operation, place});
    return tuttiSuccess;
  }
  if (operation.point_to_point() && operation.root == handle->rank) {
    Throw(tuttiInvalidUsage, "peer {} is this rank itself: put the send and its receive in one group", operation.root);
  }
  if (place.on_device || place.stream != nullptr) return Dispatch({{handle, operation, place}});
  // The usual case: nothing is copied or allocated.
  const std::lock_guard lock(*handle);
  auto& communicator = Usable(handle);
  communicator.Check(operation);
  const auto failure = RunOne(communicator, operation, WhoWaits::caller);
  return failure ? Conclude({{handle, operation, place}}, failure) : tuttiSuccess;
}

tuttiResult_t SubmitJoin(tuttiComm* handle, std::function<tuttiResult_t()> join) {
  auto& group = ThisThreadsGroup();
  if (group.depth > 0) {
    group.joins.push_back({handle, std::move(join)});
    return tuttiSuccess;
  }
  return DispatchJoins({{handle, std::move(join)}});
}

}  // namespace tutti
