#include "src/calls/repeat.h"

#include <mutex>

#include "base/clocks/clock.h"
#include "src/calls/group.h"
#include "src/calls/streams/launcher.h"

namespace tutti::calls {
namespace {

// Polls of an awaited slot before the core is offered to other ranks, or a wait begins in earnest (Driver). If two
// ranks call at the same time, the later slot comes within the trip of a cache line or two, some 100 ns; a poll takes
// some 3 ns. With four ranks on two cores, 16 polls made an all-reduce of 8 B a quarter slower, and 64 no faster.
constexpr int kPromptPolls = 32;

inline host::Progress PollPromptly(host::Run& run) {
  auto progress = host::Progress::blocked;
  for (int polls = 0; polls < kPromptPolls; ++polls) {
    progress = run.Advance(0, 1);
    if (progress == host::Progress::done || progress == host::Progress::faulted) break;
  }
  return progress;
}

// Leaves a handle that was entered for an operation.
class Entered {
 public:
  explicit Entered(tuttiComm& handle) : handle_(handle) {}
  ~Entered() { handle_.life.LeaveOperation(); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  tuttiComm& handle_;
};

// The rest of a call that waits long, crosses hosts, has failed, or audits the other ranks. `counted`: the operation
// has ended, and an audit is due.
[[gnu::noinline]] tuttiResult_t ConcludeSlowly(tuttiComm& handle, const host_side::Active& active,
                                               bool counted) noexcept {
  return GuardResult(&handle, [&] {
    auto& communicator = *handle.communicator;
    auto failure = counted ? communicator.Audit() : Finish(communicator, active, host::WhoWaits::caller);
    return failure ? Remember(&handle, *failure) : tuttiSuccess;
  });
}

}  // namespace

[[gnu::hot]] std::optional<tuttiResult_t> SubmitAgain(tuttiComm* handle, const plan::PlainCall& call,
                                                      tuttiStream_t stream) noexcept {
  if (open_groups != 0 || stream != nullptr || handle == nullptr || !handle->birthmark.OfThisProcess()) [[unlikely]]
    return std::nullopt;
  const auto entry = handle->life.EnterOperation();
  if (!entry.admitted) [[unlikely]]
    return std::nullopt;
  const Entered entered(*handle);
  // While calls wait on streams, this one needs a turn.
  if (entry.state.pending() != 0 || !RunsInCaller(*handle)) [[unlikely]]
    return std::nullopt;
  auto& communicator = *handle->communicator;
  const std::lock_guard lock(communicator);
  auto& side = communicator.host();
  auto& operations = side.operations();
  auto* const repeated = operations.Repeated(call);
  if (repeated == nullptr || communicator.failed()) return std::nullopt;
  auto active = operations.BeginAgain(*repeated, call);
  auto& run = active.plan->run;
  auto progress = run.Advance(0, 1);
  operations.Publish(active, *repeated);
  // Slots come over a network only while this thread drives the engine, and slowly.
  if (side.network() != nullptr) [[unlikely]]
    return ConcludeSlowly(*handle, active, false);
  if (progress != host::Progress::done) progress = PollPromptly(run);
  // An operation that ends by now gets its begin as its end: reading the clock again would take as long as some polls.
  auto now = active.started;
  if (progress != host::Progress::done) {
    progress = side.driver(host::WhoWaits::caller).YieldPromptly([&run] { return PollPromptly(run); });
    now = Ticks();
  }
  if (progress != host::Progress::done) [[unlikely]]
    return ConcludeSlowly(*handle, active, false);
  if (operations.Count(active, now)) [[unlikely]]
    return ConcludeSlowly(*handle, active, true);
  return tuttiSuccess;
}

}  // namespace tutti::calls
