#include "src/launch/calls.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>

#include "src/launch/shared_task.h"

namespace tutti::launch {

tuttiResult_t Conclude(tuttiComm& handle, const std::optional<Error>& failure) {
  return failure ? Remember(&handle, *failure) : tuttiSuccess;
}

namespace {

bool Waits(const plan::Operation& operation) { return operation.collective == schedule::Collective::wait_signal; }

// REQUIRES: QueueingOrder() is held.
void TakeTurns(std::span<Part> parts) {
  for (auto& part : parts) {
    part.admission->TakeTurn(part.sends                                    ? TurnKind::sends
                             : std::ranges::any_of(part.operations, Waits) ? TurnKind::awaits_signal
                                                                           : TurnKind::usual);
  }
}

// A call by itself, without a group's book-keeping.
std::optional<Error> RunAlone(Part& part, host::WhoWaits who) {
  auto failure = std::optional(AbortedBefore(*part.admission));
  if (part.admission->Await() == Admission::State::inside) {
    auto& communicator = *part.admission->handle().communicator;
    const std::lock_guard lock(communicator);
    failure = RunOne(communicator, part.operations.front(), who);
  }
  EndPart(part, failure);
  return failure;
}

bool IsOneCollective(std::span<const Part> parts) {
  return parts.size() == 1 && parts.front().operations.size() == 1 &&
         parts.front().operations.front().collective_call();
}

tuttiResult_t RunHere(std::vector<Part> parts) {
  if (parts.size() > 1 || CallsWait(parts.front().admission->handle())) {
    const std::lock_guard lock(QueueingOrder());
    TakeTurns(parts);
  }
  std::optional<Error> failure;
  if (IsOneCollective(parts)) {
    failure = RunAlone(parts.front(), host::WhoWaits::caller);
  } else {
    GroupRun run(parts);
    run.Drive(
        host::WhoWaits::caller, [](std::size_t) { return true; }, [] { return false; });
    failure = run.failure();
  }
  return failure ? Remember(nullptr, *failure) : tuttiSuccess;
}

// Calls that wait on streams until they run. An abort does not wait for them: the calls of an aborted communicator are
// skipped, and the others run without them.
class QueuedCalls {
 public:
  QueuedCalls(std::vector<Part> parts, host::WhoWaits who) : parts_(std::move(parts)), who_(who) {}

  // SharedTask::Work.
  std::optional<tuttiResult_t> Run(const SharedTask& task, const std::function<bool()>& stop) {
    std::optional<Error> failure;
    bool over = true;
    const auto result = Guard(nullptr, [&] {
      if (IsOneCollective(parts_)) {
        failure = RunAlone(parts_.front(), who_);
        return;
      }
      if (!run_) run_.emplace(parts_);
      over = run_->Drive(
          who_, [&](std::size_t stream) { return task.HasArrived(stream); }, stop);
      failure = run_->failure();
    });
    if (!over) return std::nullopt;
    run_.reset();
    parts_.clear();  // nothing may be pending once the result is visible
    if (result == tuttiSuccess && failure) Remember(nullptr, *failure);
    const auto code = failure ? failure->code() : result;
    if (code != tuttiSuccess) sentence_ = LastError(nullptr);
    return code;
  }
  // Of the failure that Run returned.
  const std::string& sentence() const { return sentence_; }

 private:
  std::vector<Part> parts_;
  const host::WhoWaits who_;
  std::optional<GroupRun> run_;
  std::string sentence_;
};

// Returns a predicate that is true if none of the calls on the stream will run.
std::function<bool()> IsVoid(std::span<const Part> parts, std::size_t stream) {
  std::vector<std::shared_ptr<tuttiComm>> handles;
  for (const auto& part : parts) {
    if (std::ranges::find(part.streams, stream) != part.streams.end()) {
      handles.push_back(part.admission->handle().shared_from_this());
    }
  }
  return [handles = std::move(handles)] {
    return std::ranges::all_of(handles, [](const auto& handle) { return handle->life.Look().aborting(); });
  };
}

tuttiResult_t Queue(std::vector<Part> parts, const std::vector<std::shared_ptr<Stream>>& streams) {
  std::vector<Participant> participants;
  for (const auto& stream : streams) participants.push_back({stream, IsVoid(parts, participants.size())});
  const auto caller = std::ranges::find(streams, nullptr);
  const bool waits = caller != streams.end();
  const bool in_progress = std::ranges::any_of(parts, &Part::in_background);
  std::shared_ptr<QueuedCalls> queued;
  std::shared_ptr<SharedTask> task;
  {
    const std::lock_guard lock(QueueingOrder());
    TakeTurns(parts);
    for (auto& part : parts) part.admission->WaitOutside();
    // A caller that waits for some of them does no other work.
    queued = std::make_shared<QueuedCalls>(std::move(parts), waits ? host::WhoWaits::caller : host::WhoWaits::stream);
    task = EnqueueOnAll(participants, [queued](const SharedTask& shared, const std::function<bool()>& stop) {
      return queued->Run(shared, stop);
    });
  }
  if (!waits) return in_progress ? tuttiInProgress : tuttiSuccess;
  const auto result = task->Arrive(static_cast<std::size_t>(caller - streams.begin()), [] { return false; });
  return result == tuttiSuccess ? result : Remember(nullptr, Error(result, queued->sentence()));
}

}  // namespace

void GroupOfCalls::Add(const Call& call) {
  const bool sends = call.operation.one_sided() && !Waits(call.operation);
  auto part = std::ranges::find_if(
      parts_, [&](const Part& each) { return each.sends == sends && &each.admission->handle() == call.handle.get(); });
  if (part == parts_.end()) {
    // Those that send come first.
    part = parts_.insert(sends ? parts_.begin() : parts_.end(), Part{Admission::ForOperation(call.handle), {}, sends});
  }
  part->operations.push_back(call.operation);
  const auto& stream = call.place.stream;
  part->in_background = part->in_background || (stream != nullptr && stream == call.handle->background);
  const auto place = static_cast<std::size_t>(std::ranges::find(streams_, stream) - streams_.begin());
  if (place == streams_.size()) streams_.push_back(stream);
  if (std::ranges::find(part->streams, place) == part->streams.end()) part->streams.push_back(place);
}

tuttiResult_t GroupOfCalls::Run(GroupOfCalls calls) {
  const bool here = calls.streams_.size() == 1 && calls.streams_.front() == nullptr;
  return here ? RunHere(std::move(calls.parts_)) : Queue(std::move(calls.parts_), calls.streams_);
}

}  // namespace tutti::launch
