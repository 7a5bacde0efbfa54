#include "src/launch/calls.h"

#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>

namespace tutti::launch {

tuttiResult_t Conclude(tuttiComm& handle, const std::optional<Error>& failure) {
  return failure ? Remember(&handle, *failure) : tuttiSuccess;
}

tuttiResult_t RunCalls(const std::vector<Call>& calls, Entries& entries, host::WhoWaits who) {
  if (calls.size() == 1 && calls[0].operation.collective_call()) {
    auto& communicator = *calls[0].handle->communicator;
    const std::lock_guard lock(communicator);
    return Conclude(*calls[0].handle, RunOne(communicator, calls[0].operation, who));
  }
  std::vector<Launched> launched;
  std::map<const comm::Communicator*, tuttiComm*> handles;
  for (const auto& call : calls) {
    launched.push_back({call.handle->communicator.get(), call.operation});
    handles.emplace(call.handle->communicator.get(), call.handle.get());
  }
  const auto failure = RunAll(launched, who, [&](comm::Communicator& communicator, const auto& own) {
    auto& handle = *handles.at(&communicator);
    Conclude(handle, own);
    entries.Leave(handle);
  });
  return failure ? Remember(nullptr, *failure) : tuttiSuccess;
}

namespace {

// Calls that wait on streams until they run. An abort does not wait for them: the calls of an aborted communicator are
// skipped, and the others run without them.
class QueuedCalls {
 public:
  // REQUIRES: all calls' handles are entered; QueueingOrder() is held. Throws tuttiSystemError if there are too many.
  explicit QueuedCalls(std::vector<Call> calls) : calls_(std::move(calls)) {
    for (const auto& call : calls_) pending_.Add(call.handle);
    pending_.TakeTurns();
  }

  tuttiResult_t Run(host::WhoWaits who) {
    const auto result = GuardResult(nullptr, [&] { return RunThose(who); });
    // Must end before the result is visible.
    pending_.End();
    return result;
  }

  // Returns a predicate that is true if none of the calls on `stream` will run.
  static std::function<bool()> IsVoid(const std::vector<Call>& calls, const Stream* stream) {
    std::vector<std::shared_ptr<tuttiComm>> handles;
    for (const auto& call : calls) {
      if (call.place.stream.get() == stream) handles.push_back(call.handle);
    }
    return [handles = std::move(handles)] {
      return std::ranges::all_of(handles, [](const auto& handle) { return handle->life.Look().aborting(); });
    };
  }

 private:
  tuttiResult_t RunThose(host::WhoWaits who) {
    Entries entries;
    std::vector<Call> alive;
    std::optional<Error> gone;
    for (auto& call : calls_) {
      if (entries.EnterInTurn(call.handle, pending_)) {
        alive.push_back(std::move(call));
      } else {
        gone = Error(tuttiRemoteError, "comm was aborted before a call that was queued on a stream began");
        Remember(call.handle.get(), *gone);
      }
    }
    const auto result = alive.empty() ? tuttiSuccess : RunCalls(alive, entries, who);
    return result == tuttiSuccess && gone ? gone->code() : result;
  }

  std::vector<Call> calls_;
  PendingHandles pending_;
};

}  // namespace

tuttiResult_t Queue(std::vector<Call> calls, Entries& entries) {
  std::vector<SharedPart> parts;
  bool waits = false;
  bool in_progress = false;
  for (const auto& call : calls) {
    const auto& stream = call.place.stream;
    if (stream == nullptr) {
      waits = true;
    } else if (std::ranges::none_of(parts, [&](const auto& part) { return part.stream == stream; })) {
      parts.push_back({stream, QueuedCalls::IsVoid(calls, stream.get())});
    }
    in_progress = in_progress || (stream != nullptr && stream == call.handle->background);
  }
  for (auto& call : calls) call.place.stream = nullptr;  // a task must not hold its own stream
  const auto outcome = std::make_shared<std::promise<tuttiResult_t>>();
  auto future = outcome->get_future();
  // A caller that waits for some of them does no other work.
  const auto who = waits ? host::WhoWaits::caller : host::WhoWaits::stream;
  const auto sentence = std::make_shared<std::string>();
  {
    const std::lock_guard lock(QueueingOrder());
    const auto queued = std::make_shared<QueuedCalls>(std::move(calls));
    EnqueueOnAll(parts, [queued, outcome, who, sentence] {
      const auto result = queued->Run(who);
      if (result != tuttiSuccess) *sentence = LastError(nullptr);
      outcome->set_value(result);
      return result;
    });
  }
  if (!waits) return in_progress ? tuttiInProgress : tuttiSuccess;
  entries.LeaveAll();  // they count as pending; aborting one must not wait for the others' streams
  const auto result = future.get();
  return result == tuttiSuccess ? result : Remember(nullptr, Error(result, *sentence));
}

}  // namespace tutti::launch
