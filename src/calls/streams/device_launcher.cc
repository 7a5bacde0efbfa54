#include "src/calls/streams/device_launcher.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numbers/datatype.h"
#include "base/threads/patience.h"
#include "src/calls/streams/launcher.h"

namespace tutti::calls {
namespace {

// The locks of several communicators. Whoever waits for one of them holds none, so two threads with calls on the same
// communicators cannot wait for each other, and no communicator waits for what runs on another.
class LockedTogether {
 public:
  using Members = std::set<comm::Communicator*>;

  // Waits until all are free, or `stop` returns true.
  template <typename Stop>
  LockedTogether(Members members, Stop&& stop) : members_(std::move(members)) {
    Patience patience;
    while (!(locked_ = TryAll()) && !stop()) patience.Pause();
  }
  ~LockedTogether() {
    if (!locked_) return;
    for (auto* communicator : members_) communicator->unlock();
  }
  LockedTogether(const LockedTogether&) = delete;
  LockedTogether& operator=(const LockedTogether&) = delete;

  // False: `stop` returned true.
  explicit operator bool() const { return locked_; }

 private:
  bool TryAll() const {
    const auto busy = std::ranges::find_if(members_, [](auto* communicator) { return !communicator->try_lock(); });
    if (busy == members_.end()) return true;
    std::for_each(members_.begin(), busy, [](auto* communicator) { communicator->unlock(); });
    return false;
  }

  const Members members_;
  bool locked_ = false;
};

// A message to oneself, or from oneself.
struct OwnMessages {
  std::vector<const plan::Operation*> operations;
  std::vector<cuda_transport::CuStream> streams;
};

// One rank's calls of a group.
struct RankCalls {
  comm::Communicator* communicator;
  std::vector<const plan::Operation*> operations;
  std::vector<cuda_transport::CuStream> streams;
  OwnMessages to_itself, from_itself;

  void AddStream(cuda_transport::CuStream stream) {
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
};

void Add(RankCalls& rank, const Call& call) {
  const plan::Operation& operation = call.operation;
  const auto stream = call.place.cuda_stream;
  if (rank.communicator->device()->DoneByCopy(operation, stream)) return;
  rank.AddStream(stream);
  if (operation.point_to_point() && operation.root == rank.communicator->rank()) {
    auto& messages = operation.collective == schedule::Collective::send ? rank.to_itself : rank.from_itself;
    messages.operations.push_back(&operation);
    messages.streams.push_back(stream);
    return;
  }
  rank.operations.push_back(&operation);
  if (MustCheck(*rank.communicator, operation)) rank.operations.push_back(&CheckingBarrier());
}

// The k-th message to oneself matches the k-th from oneself.
void CopyToItself(const RankCalls& rank) {
  const auto& [sends, send_streams] = rank.to_itself;
  const auto& [receives, receive_streams] = rank.from_itself;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    rank.communicator->device()->Copy(receives[i]->output, receive_streams[i], sends[i]->input, send_streams[i],
                                      sends[i]->count * SizeOf(sends[i]->type));
  }
}

// Calls of the ranks of one launch group.
struct LaunchGroupCalls {
  std::vector<RankCalls> ranks;
  std::vector<device::DevicePart> parts;
};

// May allocate and free memory, which a driver may defer until kernels have ended: call before any launch. Throws
// errors in the calls.
void Prepare(LaunchGroupCalls& calls) {
  for (const auto& rank : calls.ranks) {
    plan::RequireOwnMessagesMatch(rank.communicator->rank(), rank.to_itself.operations, rank.from_itself.operations);
    if (rank.operations.empty()) continue;
    const std::vector<cuda_transport::CuStream> others(rank.streams.begin() + 1, rank.streams.end());
    calls.parts.push_back(rank.communicator->device()->Prepare(rank.operations, rank.streams.front(), others));
    rank.communicator->NoteEnqueued(*rank.operations.back());
  }
}

std::optional<Error> LaunchTogether(device::LaunchGroup& launch_group, LaunchGroupCalls& calls) {
  for (const auto& rank : calls.ranks) CopyToItself(rank);
  if (calls.parts.empty()) return std::nullopt;
  const auto& settings = calls.ranks.front().communicator->options().settings;
  return launch_group.Launch(std::move(calls.parts), settings.operation_timeout(), [&]() -> std::optional<Error> {
    for (const auto& rank : calls.ranks) {
      if (auto failure = rank.communicator->failure()) return failure;
    }
    return std::nullopt;
  });
}

// Those that wait, or those that do not; by stream, each in the order given.
void EnqueueOneSided(std::span<const Call> calls, bool waits) {
  std::map<std::pair<comm::Communicator*, cuda_transport::CuStream>, std::vector<const plan::Operation*>> streams;
  for (const auto& call : calls) {
    const bool this_waits = call.operation.collective == schedule::Collective::wait_signal;
    if (call.operation.one_sided() && this_waits == waits)
      streams[{call.handle->communicator.get(), call.place.cuda_stream}].push_back(&call.operation);
  }
  for (const auto& [place, operations] : streams) place.first->device()->signals().Enqueue(operations, place.second);
}

bool Kills(const Error& error) { return error.code() != tuttiInvalidUsage && error.code() != tuttiInvalidArgument; }

// REQUIRES: the communicators are locked.
std::optional<Error> EnqueueLocked(std::span<const Call> group) {
  // By communicator, in an order that all processes share: streams of several GPUs then hold their kernels in one
  // order, and none waits for another one's next. For the same reason two threads never wait for each other's next
  // launch group.
  std::map<std::pair<std::string_view, std::shared_ptr<device::LaunchGroup>>, LaunchGroupCalls> launch_groups;
  std::optional<Error> first;
  try {
    for (const auto& call : group) {
      if (call.operation.one_sided()) continue;
      auto* const communicator = call.handle->communicator.get();
      auto& ranks = launch_groups[{communicator->identity(), communicator->device()->launch_group()}].ranks;
      auto rank = std::find_if(ranks.begin(), ranks.end(),
                               [&](const RankCalls& each) { return each.communicator == communicator; });
      if (rank == ranks.end()) rank = ranks.insert(ranks.end(), {communicator, {}, {}, {}, {}});
      Add(*rank, call);
    }
    for (auto& [launch_group, calls] : launch_groups) Prepare(calls);
    EnqueueOneSided(group, false);
    for (auto& [launch_group, calls] : launch_groups) {
      const auto failure = LaunchTogether(*launch_group.second, calls);
      if (!failure) continue;
      // A refused call has left nothing behind. After any other failure it is unknown what ran.
      for (const auto& rank : calls.ranks) {
        if (Kills(*failure)) rank.communicator->Fail(*failure);
      }
      if (!first) first = failure;
    }
    if (!first) EnqueueOneSided(group, true);
  } catch (...) {
    const Error error = comm::CurrentFailure();
    for (const auto& call : group) {
      if (Kills(error)) call.handle->communicator->Fail(error);
    }
    return error;
  }
  return first;
}

}  // namespace

tuttiResult_t EnqueueAll(std::span<const Call> calls) {
  LockedTogether::Members communicators;
  for (const auto& call : calls) communicators.insert(call.handle->communicator.get());
  const LockedTogether locked(std::move(communicators), [&] {
    return std::ranges::any_of(calls, [](const Call& call) { return call.handle->life.Look().aborting(); });
  });
  if (!locked) return Remember(nullptr, Error(tuttiInvalidArgument, "comm was aborted before the call began"));
  // Another thread may have suspended one since the call was checked.
  for (const auto& call : calls) {
    const auto result = Guard(call.handle.get(), [&] { call.handle->communicator->RequireResumed(); });
    if (result != tuttiSuccess) return result;
  }
  const auto failure = EnqueueLocked(calls);
  return failure ? Remember(calls.front().handle.get(), *failure) : tuttiSuccess;
}

}  // namespace tutti::calls
