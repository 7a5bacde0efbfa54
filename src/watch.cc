#include "src/watch.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "executors/host/doorbell.h"
#include "transports/network.h"

namespace tutti {
namespace {

// What has come is taken by then, also by a helper thread on a busy machine.
constexpr std::chrono::milliseconds kLastSlots{500};

bool IsDead(int pidfd) {
  if (pidfd < 0) return false;
  pollfd entry{pidfd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

bool IsPointToPoint(const RecordedCall& call) {
  const auto collective = static_cast<Collective>(call.call & 0xff);
  return collective == Collective::send || collective == Collective::receive;
}

Collective OtherSide(const Operation& operation) {
  return operation.collective == Collective::send ? Collective::receive : Collective::send;
}

int PeerOf(const RecordedCall& call) { return static_cast<int>(call.call >> 32); }

bool IsMessageFor(int rank, Collective direction, const RecordedCall& call) {
  return static_cast<Collective>(call.call & 0xff) == direction && PeerOf(call) == rank;
}

}  // namespace

Watch::Watch(Fabric& fabric, std::vector<Process> roster, std::string name, std::chrono::milliseconds timeout)
    : fabric_(fabric),
      roster_(std::move(roster)),
      name_(std::move(name)),
      timeout_(timeout),
      seen_dead_(static_cast<std::size_t>(fabric.nranks()), false),
      passed_(static_cast<std::size_t>(fabric.nranks())) {}

std::string Watch::Who(int rank) const { return tutti::Describe(rank, roster_[static_cast<std::size_t>(rank)]); }

std::string Watch::Describe(const Undertaking& undertaking) const {
  const auto& operation = *undertaking.operation;
  return fmt::format("{} as {} {}{}", DescribeCall(PackCall(operation), operation.count),
                     operation.point_to_point() ? "message" : "operation", undertaking.sequence,
                     name_.empty() ? "" : fmt::format(" of \"{}\"", name_));
}

Error Watch::Fail(const Error& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    failure_ = failure;
    const std::string_view message = failure.what();
    auto& control = fabric_.control(fabric_.rank());
    const auto length = std::min(message.size(), kFaultText - 1);
    std::memcpy(control.fault_text.data(), message.data(), length);
    control.fault_text[length] = '\0';
    control.fault_code.store(static_cast<std::uint32_t>(failure.code()), std::memory_order_relaxed);
    control.state.store(RankState::failed, std::memory_order_release);
    failed_.store(true, std::memory_order_release);
  }
  Log(Subject::faults, "rank {}: {}: {}", fabric_.rank(), ResultPhrase(failure.code()), failure.what());
  WakeAll(fabric_);
  if (auto* const network = fabric_.network()) network->TellFailure(failure.code(), failure.what());
  return failure;
}

std::optional<Error> Watch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<Error> Watch::LookAtFailures() const {
  for (int r = 0; r < fabric_.nranks(); ++r) {
    const auto& control = fabric_.control(r);
    if (r == fabric_.rank() || control.state.load(std::memory_order_acquire) != RankState::failed) continue;
    return Error{static_cast<tuttiResult_t>(control.fault_code.load(std::memory_order_relaxed)),
                 std::string(control.fault_text.data(), strnlen(control.fault_text.data(), kFaultText))};
  }
  return std::nullopt;
}

// The call that rank makes (or made) in the place of ours.
std::optional<RecordedCall> Watch::Counterpart(int rank, const Undertaking& undertaking) const {
  const auto& control = fabric_.control(rank);
  const auto& operation = *undertaking.operation;
  if (!operation.point_to_point()) {
    // One load decides in the usual case: the peer has not come yet.
    if (control.started.load(std::memory_order_acquire) < undertaking.sequence) return std::nullopt;
    return FindRecord(control, [&](const RecordedCall& call) {
      return !IsPointToPoint(call) && call.sequence == undertaking.sequence;
    });
  }
  return FindRecord(control, [&](const RecordedCall& call) {
    return IsMessageFor(fabric_.rank(), OtherSide(operation), call) && call.sequence == undertaking.sequence;
  });
}

// The last message of the pair, in the same direction, that the other side has come to, if that is behind ours: it
// begins one only after it has done those before.
std::optional<RecordedCall> Watch::LaterMessage(const Undertaking& undertaking) const {
  const auto& operation = *undertaking.operation;
  return FindRecord(fabric_.control(operation.root), [&](const RecordedCall& call) {
    return IsMessageFor(fabric_.rank(), OtherSide(operation), call) && call.sequence > undertaking.sequence;
  });
}

// A sender that has sent our message in a form that we do not look at - shorter ones travel by other slots - goes on to
// the next ones, until its record of ours is gone.
std::optional<Error> Watch::LookForPassedMessage(const Undertaking& undertaking,
                                                 std::chrono::steady_clock::duration waited) {
  const auto& operation = *undertaking.operation;
  // From another host what was sent may still be on its way.
  if (operation.collective != Collective::receive || !fabric_.is_local(operation.root)) return std::nullopt;
  const auto later = LaterMessage(undertaking);
  if (!later) return std::nullopt;
  auto& passed = passed_[static_cast<std::size_t>(operation.root)];
  if (passed.sequence != undertaking.sequence || waited < passed.waited) passed = {undertaking.sequence, waited};
  if (waited - passed.waited < kLastSlots) return std::nullopt;
  return Error{
      tuttiInvalidUsage,
      fmt::format("the ranks' calls do not match: {} called {}, but {} has sent another message in its place, "
                  "and gone on to {} as message {}",
                  Who(fabric_.rank()), Describe(undertaking), Who(operation.root), later->Describe(), later->sequence)};
}

Error Watch::Mismatch(const Undertaking& undertaking, int rank, const RecordedCall& theirs) const {
  const auto& operation = *undertaking.operation;
  const bool alike = DescribeCall(PackCall(operation), operation.count) == theirs.Describe();
  const char* const differ = operation.tensors != nullptr ? " on tensors of another shape" : " with other recvcounts";
  return {tuttiInvalidUsage,
          fmt::format("the ranks' calls do not match: {} called {}, but {} called {}{}", Who(fabric_.rank()),
                      Describe(undertaking), Who(rank), theirs.Describe(), alike ? differ : "")};
}

// The oldest operation that is still on record and that this rank and `rank` called differently. A rank with nothing to
// send or to wait for (a count of zero) has left it behind.
std::optional<Error> Watch::EarlierMismatch(int rank) const {
  const auto& control = fabric_.control(rank);
  for (const auto& mine : ReadRecords(fabric_.control(fabric_.rank()))) {
    if (IsPointToPoint(mine)) continue;
    const auto theirs = FindRecord(control, [&](const RecordedCall& call) {
      return !IsPointToPoint(call) && call.sequence == mine.sequence && call.signature != mine.signature;
    });
    if (!theirs) continue;
    return Error{tuttiInvalidUsage,
                 fmt::format("the ranks' calls do not match: {} called {} as operation {}, but {} called {}",
                             Who(fabric_.rank()), mine.Describe(), mine.sequence, Who(rank), theirs->Describe())};
  }
  return std::nullopt;
}

std::optional<Error> Watch::LookForMismatch(const Undertaking& undertaking) const {
  for (int r = 0; r < fabric_.nranks(); ++r) {
    if (r == fabric_.rank()) continue;
    if (undertaking.operation->point_to_point() && r != undertaking.operation->root) continue;
    const auto theirs = Counterpart(r, undertaking);
    if (theirs && theirs->signature != undertaking.signature) return Mismatch(undertaking, r, *theirs);
  }
  return std::nullopt;
}

// Whoever has completed the operation, or every message of a pair, may be gone.
bool Watch::NeedsNothingFrom(int rank, const Undertaking& undertaking) const {
  if (undertaking.operation->point_to_point()) return rank != undertaking.operation->root;
  return fabric_.control(rank).completed.load(std::memory_order_acquire) >= undertaking.sequence;
}

std::vector<int> Watch::Dead() const {
  std::vector<int> dead;
  for (int r = 0; r < fabric_.nranks(); ++r) {
    if (r != fabric_.rank() && fabric_.is_local(r) && IsDead(fabric_.pidfd(r))) dead.push_back(r);
  }
  return dead;
}

std::optional<std::string> Watch::HowItEnded(int rank) const {
  if (fabric_.is_local(rank)) return IsDead(fabric_.pidfd(rank)) ? std::optional<std::string>("died") : std::nullopt;
  auto why = fabric_.network()->Lost(rank);
  if (why) why = fmt::format("was lost ({})", *why);
  return why;
}

std::optional<Error> Watch::LookForDeath(const Undertaking& undertaking, const std::vector<int>& waits_for,
                                         std::chrono::steady_clock::duration waited) {
  int missed = -1;
  std::optional<std::string> died;  // rather than left, which may be another death's consequence
  for (int r = 0; r < fabric_.nranks() && !died; ++r) {
    if (r == fabric_.rank()) continue;
    const bool local = fabric_.is_local(r), completed = NeedsNothingFrom(r, undertaking);
    if (local && completed) continue;  // spares the system call below, too
    // What a rank of another host has completed is not always known here; who waits for it says that it is missed.
    if (!local && std::find(waits_for.begin(), waits_for.end(), r) == waits_for.end()) continue;
    const bool left = fabric_.control(r).state.load(std::memory_order_acquire) == RankState::left;
    const auto ended = left && local ? std::nullopt : HowItEnded(r);
    if (!left && !ended) continue;
    // News that a rank of another host has completed may overtake what it sent. That may still come until its
    // connections have ended, and then has to be taken.
    if (completed && (!ended || waited < kLastSlots)) continue;
    // What it had published before is still to be read: only when another look finds us waiting still is it missed.
    if (!seen_dead_[static_cast<std::size_t>(r)]) {
      seen_dead_[static_cast<std::size_t>(r)] = true;
      continue;
    }
    if (missed >= 0 && left) continue;
    missed = r;
    if (!left) died = ended;
  }
  if (missed < 0) return std::nullopt;
  return Error{tuttiRemoteError,
               fmt::format("{} {} while {} waited for it in {}", Who(missed),
                           died.value_or("destroyed its communicator"), Who(fabric_.rank()), Describe(undertaking))};
}

std::string Watch::WhereOthersAre(const Undertaking& undertaking) const {
  const auto& operation = *undertaking.operation;
  if (operation.point_to_point()) {
    const auto last = FindRecord(fabric_.control(operation.root), [&](const RecordedCall& call) {
      return IsMessageFor(fabric_.rank(), OtherSide(operation), call);
    });
    if (!last) return "";
    return fmt::format("; {} has come to {} as message {}", Who(operation.root), last->Describe(), last->sequence);
  }
  std::string text;
  for (int r = 0; r < fabric_.nranks(); ++r) {
    if (r == fabric_.rank() || fabric_.control(r).completed.load(std::memory_order_acquire) >= undertaking.sequence)
      continue;
    const auto last = FindRecord(fabric_.control(r), [](const RecordedCall& call) { return !IsPointToPoint(call); });
    const bool came = last && last->sequence >= undertaking.sequence;
    text += fmt::format(
        "; {} {}", Who(r),
        came   ? "is in it, too"
        : last ? fmt::format("has not called it (its last was operation {}, {})", last->sequence, last->Describe())
               : std::string("has not called anything yet"));
  }
  return text;
}

std::optional<Error> Watch::Look(const Undertaking& undertaking, const std::vector<int>& waits_for,
                                 std::chrono::steady_clock::duration waited) {
  if (auto* const network = fabric_.network()) {
    network->Announce();
    network->LookForSilence();
  }
  if (auto own = failure()) return own;
  if (auto theirs = LookAtFailures()) return theirs;
  if (auto mismatch = LookForMismatch(undertaking)) return mismatch;
  if (auto passed = LookForPassedMessage(undertaking, waited)) return passed;
  if (auto death = LookForDeath(undertaking, waits_for, waited)) return death;
  if (waited < timeout_) return std::nullopt;
  return Error{tuttiTimeoutError,
               fmt::format("nothing moved for {} ms in {} of {}{}{}", timeout_.count(), Describe(undertaking),
                           Who(fabric_.rank()),
                           waits_for.empty() ? "" : fmt::format(", which waits for {}", Who(waits_for.front())),
                           WhereOthersAre(undertaking))};
}

Error Watch::Explain(const Undertaking& undertaking, const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::foreign:
      if (const auto theirs = Counterpart(fault.peer, undertaking);
          theirs && theirs->signature != undertaking.signature) {
        return Mismatch(undertaking, fault.peer, *theirs);
      }
      if (auto earlier = EarlierMismatch(fault.peer)) return *earlier;
      return {tuttiInvalidUsage, fmt::format("the ranks' calls do not match: {} called {}, but what {} sent belongs to "
                                             "another operation",
                                             Who(fabric_.rank()), Describe(undertaking), Who(fault.peer))};
    case Fault::Kind::length:
      return {tuttiInvalidUsage, fmt::format("{} expects {} bytes from {} in {}, but {} were sent", Who(fabric_.rank()),
                                             fault.expected, Who(fault.peer), Describe(undertaking), fault.got)};
    case Fault::Kind::unreachable:
      return {tuttiRemoteError, fmt::format("{} could not read the memory of {} in {}; it may have died",
                                            Who(fabric_.rank()), Who(fault.peer), Describe(undertaking))};
    case Fault::Kind::none: break;
  }
  return {tuttiInternalError, fmt::format("an unnamed fault in {}", Describe(undertaking))};
}

}  // namespace tutti
