#include "src/calls/calls.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>

#include "src/calls/group_run.h"
#include "src/calls/streams/device_launcher.h"
#include "src/calls/streams/shared_task.h"
#include "src/memory/device_buffers.h"

namespace tutti::calls {

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

bool IsOneCollective(std::span<const Part> parts) {
  return parts.size() == 1 && parts.front().operations.size() == 1 &&
         parts.front().operations.front().collective_call();
}

// The parts of a group on host memory while they run, or wait on streams until they do. An abort does not wait for the
// latter: the calls of an aborted communicator are skipped, and the others run without them.
class RunningParts {
 public:
  RunningParts(std::vector<Part> parts, host::WhoWaits who) : parts_(std::move(parts)), who_(who) {}

  // As GroupRun::Drive(); nothing instead of false, and else the result, whose failure this thread remembers.
  std::optional<tuttiResult_t> Run(const std::function<bool(std::size_t)>& has_arrived,
                                   const std::function<bool()>& stop) {
    std::optional<Error> failure;
    bool over = true;
    auto* const only = parts_.size() == 1 ? &parts_.front().admission->handle() : nullptr;
    const auto result = Guard(only, [&] {
      if (IsOneCollective(parts_)) {
        failure = RunAlone();
        return;
      }
      if (!run_) run_.emplace(parts_);
      over = run_->Drive(who_, has_arrived, stop);
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
  // The text of the failure that Run returned.
  const std::string& sentence() const { return sentence_; }

 private:
  // A call by itself, without a group's book-keeping.
  std::optional<Error> RunAlone() {
    auto& part = parts_.front();
    auto failure = std::optional(AbortedBefore(*part.admission));
    if (part.admission->Await() == Admission::State::inside) {
      failure = RunOne(*part.admission->handle().communicator, part.operations.front(), who_);
    }
    EndPart(part, failure);
    return failure;
  }

  std::vector<Part> parts_;
  const host::WhoWaits who_;
  std::optional<GroupRun> run_;
  std::string sentence_;
};

tuttiResult_t RunPartsHere(std::vector<Part> parts) {
  if (parts.size() > 1 || CallsWait(parts.front().admission->handle())) {
    const std::lock_guard lock(QueueingOrder());
    TakeTurns(parts);
  }
  RunningParts running(std::move(parts), host::WhoWaits::caller);
  return running.Run([](std::size_t) { return true; }, [] { return false; }).value();
}

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

tuttiResult_t QueueParts(std::vector<Part> parts, const std::vector<std::shared_ptr<Stream>>& streams) {
  std::vector<Participant> participants;
  for (const auto& stream : streams) participants.push_back({stream, IsVoid(parts, participants.size())});
  const auto caller = std::ranges::find(streams, nullptr);
  const bool waits = caller != streams.end();
  const bool in_progress = std::ranges::any_of(parts, &Part::in_background);
  std::shared_ptr<RunningParts> queued;
  std::shared_ptr<SharedTask> task;
  {
    const std::lock_guard lock(QueueingOrder());
    TakeTurns(parts);
    for (auto& part : parts) part.admission->WaitOutside();
    // A caller that waits for some of them does no other work.
    queued = std::make_shared<RunningParts>(std::move(parts), waits ? host::WhoWaits::caller : host::WhoWaits::stream);
    task = EnqueueOnAll(participants, [queued](const SharedTask& shared, const std::function<bool()>& stop) {
      return queued->Run([&](std::size_t stream) { return shared.HasArrived(stream); }, stop);
    });
  }
  if (!waits) return in_progress ? tuttiInProgress : tuttiSuccess;
  const auto result = task->Arrive(static_cast<std::size_t>(caller - streams.begin()), [] { return false; });
  return result == tuttiSuccess ? result : Remember(nullptr, Error(result, queued->sentence()));
}

// The calls of one group on host memory, as parts, and the streams that they are on.
class GroupOfCalls {
 public:
  // Enters the call's communicator. Throws what Operating throws.
  void Add(const Call& call) {
    const bool sends = call.operation.one_sided() && !Waits(call.operation);
    auto part = std::ranges::find_if(parts_, [&](const Part& each) {
      return each.sends == sends && &each.admission->handle() == call.handle.get();
    });
    if (part == parts_.end()) {
      // Those that send come first.
      part =
          parts_.insert(sends ? parts_.begin() : parts_.end(), Part{Admission::ForOperation(call.handle), {}, sends});
    }
    part->operations.push_back(call.operation);
    const auto& stream = call.place.stream;
    part->in_background = part->in_background || (stream != nullptr && stream == call.handle->background);
    const auto place = static_cast<std::size_t>(std::ranges::find(streams_, stream) - streams_.begin());
    if (place == streams_.size()) streams_.push_back(stream);
    if (std::ranges::find(part->streams, place) == part->streams.end()) part->streams.push_back(place);
  }
  bool empty() const { return parts_.empty(); }
  tuttiResult_t Run() && {
    const bool here = streams_.size() == 1 && streams_.front() == nullptr;
    return here ? RunPartsHere(std::move(parts_)) : QueueParts(std::move(parts_), streams_);
  }

 private:
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<Stream>> streams_;  // null: the caller
};

}  // namespace

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

tuttiResult_t Run(const std::vector<Call>& calls) {
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
    const auto result = EnqueueAll(on_devices);
    if (result != tuttiSuccess || on_host.empty()) return result;
    inside.clear();
  }
  return std::move(on_host).Run();
}

tuttiResult_t RunHere(tuttiComm& handle, const plan::Operation& operation) {
  auto& communicator = Usable(handle);
  communicator.Check(operation);
  const auto failure = RunOne(communicator, operation, host::WhoWaits::caller);
  return failure ? Remember(&handle, *failure) : tuttiSuccess;
}

}  // namespace tutti::calls
