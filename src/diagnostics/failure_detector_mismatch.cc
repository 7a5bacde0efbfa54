// The half of the failure detector that compares this rank's calls with the other ranks'.
#include <algorithm>
#include <thread>

#include "base/clocks/deadline.h"
#include "src/diagnostics/failure_detector.h"

namespace tutti::diagnostics {
namespace {

schedule::Collective OtherSide(const plan::Operation& operation) {
  return operation.collective == schedule::Collective::send ? schedule::Collective::receive
                                                            : schedule::Collective::send;
}

int PeerOf(const RecordedCall& call) { return static_cast<int>(call.call >> 32); }

bool IsMessageFor(int rank, schedule::Collective direction, const RecordedCall& call) {
  return CollectiveOf(call) == direction && PeerOf(call) == rank;
}

}  // namespace

// The call that `rank` makes (or made) in place of this rank's call.
std::optional<RecordedCall> FailureDetector::Counterpart(int rank, const InFlight& in_flight) const {
  const auto& control = fabric_.control(rank);
  const auto& operation = *in_flight.operation;
  if (operation.one_sided()) return std::nullopt;
  if (!operation.point_to_point()) {
    // In the usual case one load decides: the peer has not come yet.
    if (control.started.load(std::memory_order_acquire) < in_flight.sequence) return std::nullopt;
    return FindRecord(
        control, [&](const RecordedCall& call) { return IsCollective(call) && call.sequence == in_flight.sequence; });
  }
  return FindRecord(control, [&](const RecordedCall& call) {
    return IsMessageFor(fabric_.rank(), OtherSide(operation), call) && call.sequence == in_flight.sequence;
  });
}

// Likewise, for a rank of which a slot has come. A rank that repeats a call publishes the call only after its first slots
// (Operations::BeginAgain), and the kernel may stop it in between.
std::optional<RecordedCall> FailureDetector::AwaitCounterpart(int rank, const InFlight& in_flight) const {
  const auto deadline = Deadline::After(kLastSlots);
  for (Lookout lookout;; lookout.Look()) {
    auto theirs = Counterpart(rank, in_flight);
    if (theirs || !fabric_.is_local(rank) || deadline.Passed()) return theirs;
    std::this_thread::yield();
  }
}

// The other side's last message of this pair and direction, if it comes after this rank's: the other side begins a
// message only after all earlier ones.
std::optional<RecordedCall> FailureDetector::LaterMessage(const InFlight& in_flight) const {
  const auto& operation = *in_flight.operation;
  return FindRecord(fabric_.control(operation.root), [&](const RecordedCall& call) {
    return IsMessageFor(fabric_.rank(), OtherSide(operation), call) && call.sequence > in_flight.sequence;
  });
}

// The sender may have sent this rank's message in a form that the receiver does not check, because shorter messages use
// other slots. The sender then goes on to later messages, until its record of this one is gone.
std::optional<Error> FailureDetector::LookForPassedMessage(const InFlight& in_flight,
                                                           std::chrono::steady_clock::duration waited) {
  const auto& operation = *in_flight.operation;
  // Data from another host may still be on its way.
  if (operation.collective != schedule::Collective::receive || !fabric_.is_local(operation.root)) return std::nullopt;
  const auto later = LaterMessage(in_flight);
  if (!later) return std::nullopt;
  auto& passed = passed_[static_cast<std::size_t>(operation.root)];
  if (passed.sequence != in_flight.sequence || waited < passed.waited) passed = {in_flight.sequence, waited};
  if (waited - passed.waited < kLastSlots) return std::nullopt;
  return Error{tuttiInvalidUsage, fmt::format("the ranks' calls do not match: {} called {}, but {} sent another "
                                              "message in its place and went on to {}",
                                              Who(fabric_.rank()), Describe(in_flight), Who(operation.root),
                                              DescribeNumbered(operation.root, *later))};
}

// This rank waits in a collective for a rank of this host that has ended the collective: the pair's counts differ.
std::optional<Error> FailureDetector::LookForWithheld(const InFlight& in_flight, const Awaited& awaited,
                                                      std::chrono::steady_clock::duration waited) {
  if (!in_flight.operation->collective_call() || !awaited.confirmed) return std::nullopt;
  const auto has_ended = [&](int rank) { return fabric_.is_local(rank) && NeedsNothingFrom(rank, in_flight); };
  const bool still = withheld_.sequence == in_flight.sequence && waited >= withheld_.waited &&
                     std::ranges::find(awaited.ranks, withheld_.rank) != awaited.ranks.end();
  if (!still) {
    const auto ended = std::ranges::find_if(awaited.ranks, has_ended);
    withheld_ = ended == awaited.ranks.end() ? Withheld{} : Withheld{in_flight.sequence, *ended, waited};
    return std::nullopt;
  }
  // It may have ended since the awaited ranks were listed: only a rank that is awaited again has sent too little.
  if (waited - withheld_.waited < kLastSlots) return std::nullopt;
  const auto theirs = Counterpart(withheld_.rank, in_flight);
  return Error{tuttiInvalidUsage, fmt::format("the ranks' calls do not match: {} called {} and waits for {}, which "
                                              "called {} with other counts and has finished it",
                                              Who(fabric_.rank()), Describe(in_flight), Who(withheld_.rank),
                                              theirs ? Describe(withheld_.rank, *theirs) : "something else")};
}

// Whether `rank` cannot end that collective before this rank has begun it. (The root of a broadcast need not wait for
// any rank, nor one of its leaves for another leaf.)
bool FailureDetector::NeedsUs(int rank, const RecordedCall& theirs) const {
  const plan::Operation call = plan::UnpackCall(theirs.call, theirs.count);
  if (!plan::MayEndAlone(call)) return true;
  if (!schedule::HasRoot(call.collective) || call.count == 0) return false;
  return PatternOf(call.collective).output.of_root ? call.root == rank : call.root == fabric_.rank();
}

// Whether `rank` publishes that it waits for this rank in a collective that this rank has not begun, or for a rank that
// does so, and so on. Only the counts of a v-form's rank show which ranks it needs.
bool FailureDetector::AwaitsUs(int rank) const {
  const auto begun = fabric_.control(fabric_.rank()).started.load(std::memory_order_relaxed);
  for (int hop = 0; hop < fabric_.nranks(); ++hop) {
    if (rank < 0 || rank >= fabric_.nranks() || !fabric_.is_local(rank)) return false;
    const auto& control = fabric_.control(rank);
    if (control.several.load(std::memory_order_acquire) != 0) return false;
    const auto newest = ReadRecord(control, NewestRecord(control));
    if (!newest || newest->done() || !IsCollective(*newest) || newest->sequence <= begun) return false;
    rank = ring::AwaitedIn(control.awaits.load(std::memory_order_acquire), newest->index);
    if (rank == fabric_.rank()) return true;
    // Blocks of pairs are independent: the awaited rank's own wait does not matter.
    if (schedule::HasBlocksOfPairs(CollectiveOf(*newest))) return false;
  }
  return false;
}

// This rank waits in a message for a rank that waits for this rank in another operation; both do nothing else.
std::optional<Error> FailureDetector::LookForCrossing(const InFlight& in_flight,
                                                      std::chrono::steady_clock::duration waited) {
  const auto& operation = *in_flight.operation;
  // Earlier data from another host may still be on its way.
  if (!operation.point_to_point() || !fabric_.is_local(operation.root)) return std::nullopt;
  const int peer = operation.root;
  const auto& own = fabric_.control(fabric_.rank());
  const auto& control = fabric_.control(peer);
  const auto several = [](const ring::ControlBlock& block) {
    return block.several.load(std::memory_order_acquire) != 0;
  };
  if (several(own) || several(control)) return std::nullopt;
  const auto theirs = ReadRecord(control, NewestRecord(control));
  if (!theirs || theirs->done()) return std::nullopt;
  if (!IsCollective(*theirs)) {
    if (!IsMessageFor(fabric_.rank(), operation.collective, *theirs)) return std::nullopt;
  } else {
    const bool ended = control.completed.load(std::memory_order_acquire) >= theirs->sequence;
    const bool begun = own.started.load(std::memory_order_relaxed) >= theirs->sequence;
    if (ended || begun || (!NeedsUs(peer, *theirs) && !AwaitsUs(peer))) return std::nullopt;
  }
  const Crossing now{in_flight.sequence, theirs->index, waited};
  const bool seen = crossing_.sequence == now.sequence && crossing_.record == now.record && waited >= crossing_.waited;
  if (!seen) crossing_ = now;
  // Earlier data may still arrive, and short messages end without this rank.
  if (waited - crossing_.waited < kLastSlots) return std::nullopt;
  return Error{tuttiInvalidUsage,
               fmt::format("the ranks' calls do not match: {} called {}, but {} called {}, and each waits for "
                           "the other",
                           Who(fabric_.rank()), Describe(in_flight), Who(peer), DescribeNumbered(peer, *theirs))};
}

Error FailureDetector::Mismatch(const InFlight& in_flight, int rank, const RecordedCall& theirs) const {
  const auto& operation = *in_flight.operation;
  return {tuttiInvalidUsage,
          fmt::format("the ranks' calls do not match: {} called {}, but {} called {}{}", Who(fabric_.rank()),
                      Describe(in_flight), Who(rank), Describe(rank, theirs),
                      plan::WhereAlike(plan::PackCall(operation), operation.count, theirs.call, theirs.count))};
}

// The oldest recorded operation that this rank and `rank` called differently. A rank that need not send or wait (a
// count of zero) has passed it.
std::optional<Error> FailureDetector::EarlierMismatch(int rank) const {
  const auto& control = fabric_.control(rank);
  for (const auto& mine : ReadRecords(fabric_.control(fabric_.rank()))) {
    if (!IsCollective(mine)) continue;
    const auto theirs = FindRecord(control, [&](const RecordedCall& call) {
      return IsCollective(call) && call.sequence == mine.sequence && call.signature != mine.signature;
    });
    if (!theirs) continue;
    return Error{tuttiInvalidUsage,
                 fmt::format("the ranks' calls do not match: {} called {}, but {} called {}{}", Who(fabric_.rank()),
                             DescribeNumbered(fabric_.rank(), mine), Who(rank), Describe(rank, *theirs),
                             plan::WhereAlike(mine.call, mine.count, theirs->call, theirs->count))};
  }
  return std::nullopt;
}

// `rank`'s collectives differ from this rank's, up to one that both have begun.
Error FailureDetector::Disagreement(int rank) const {
  if (auto earlier = EarlierMismatch(rank)) return *earlier;
  const auto last = [&](int which) {
    const auto record = FindRecord(fabric_.control(which), IsCollective);
    return record ? DescribeNumbered(which, *record) : "nothing on record";
  };
  return {
      tuttiInvalidUsage,
      fmt::format("the ranks' calls do not match: {} and {} called different collectives, in calls too old to be on "
                  "record; their last calls: {} called {}, and {} called {}",
                  Who(fabric_.rank()), Who(rank), Who(fabric_.rank()), last(fabric_.rank()), Who(rank), last(rank))};
}

std::optional<Error> FailureDetector::Audit() {
  if (network_ != nullptr) network_->Progress();
  if (const auto rank = audit_.Look()) return Disagreement(*rank);
  if (audit_.SomeoneFailed() || network_ != nullptr) return LookAtFailures();
  return std::nullopt;
}

std::optional<Error> FailureDetector::Compare() {
  if (const auto rank = audit_.LookAtAll()) return Disagreement(*rank);
  return std::nullopt;
}

std::optional<Error> FailureDetector::CompareLast() {
  constexpr std::chrono::milliseconds kPromised{1000};  // docs/faults.md
  constexpr std::chrono::microseconds kNap{50};
  const auto deadline = Deadline::After(kPromised);
  for (Lookout lookout; !failed() && !audit_.Settled() && !deadline.Passed(); lookout.Look()) {
    std::this_thread::sleep_for(kNap);
  }
  if (failed()) return failure();
  if (auto found = Compare()) return found;
  // The newest mark of a rank that is ahead is one that this rank never reaches. Its records are older.
  for (const int r : fabric_.local()) {
    if (r == fabric_.rank() || !history_.Ahead(r)) continue;
    if (auto earlier = EarlierMismatch(r)) return earlier;
  }
  return std::nullopt;
}

std::optional<Error> FailureDetector::LookForMismatch(const InFlight& in_flight) {
  for (int r = 0; r < fabric_.nranks(); ++r) {
    if (r == fabric_.rank()) continue;
    if (!in_flight.operation->collective_call() && r != in_flight.operation->root) continue;
    const auto theirs = Counterpart(r, in_flight);
    if (theirs && theirs->signature != in_flight.signature) return Mismatch(in_flight, r, *theirs);
  }
  return Compare();
}

// The calls in which ranks wait for each other's signals, from `rank` on, as far as they lead.
std::string FailureDetector::WaitsFrom(int rank) const {
  std::string text;
  for (int i = 0; i < fabric_.nranks(); ++i) {
    const auto open = FindRecord(fabric_.control(rank), [](const RecordedCall& call) { return !call.done(); });
    if (!open) return text;
    text += fmt::format("; {} is in {}", Who(rank), Describe(rank, *open));
    const auto call = plan::UnpackCall(open->call, open->count);
    if (call.collective != schedule::Collective::wait_signal) return text;
    if (call.root == fabric_.rank()) return text + ": they wait for each other's signals";
    if (call.root < 0 || call.root >= fabric_.nranks()) return text;  // a peer's memory holds any number
    rank = call.root;
  }
  return text;
}

std::string FailureDetector::WhereOthersAre(const InFlight& in_flight) const {
  const auto& operation = *in_flight.operation;
  if (operation.one_sided()) return WaitsFrom(operation.root);
  if (operation.point_to_point()) {
    const auto last = FindRecord(fabric_.control(operation.root), [&](const RecordedCall& call) {
      return IsMessageFor(fabric_.rank(), OtherSide(operation), call);
    });
    if (!last) return "";
    return fmt::format("; the last call of {} is {}", Who(operation.root), DescribeNumbered(operation.root, *last));
  }
  std::string text;
  for (int r = 0; r < fabric_.nranks(); ++r) {
    if (r == fabric_.rank() || fabric_.control(r).completed.load(std::memory_order_acquire) >= in_flight.sequence)
      continue;
    const auto last = FindRecord(fabric_.control(r), IsCollective);
    const bool came = last && last->sequence >= in_flight.sequence;
    text += fmt::format(
        "; {} {}", Who(r),
        came   ? "is in it, too"
        : last ? fmt::format("has not called it (its last was operation {}, {})", last->sequence, Describe(r, *last))
               : std::string("has not called anything yet"));
  }
  return text;
}

// Waits for the mismatched calls to be named. The peer may be about to publish its own call, or have both calls
// although they are no longer on record here.
std::optional<Error> FailureDetector::AwaitName(int rank) const {
  constexpr std::chrono::milliseconds kPatience{300}, kLookEvery{1};
  for (auto waited = kPatience * 0; waited < kPatience; waited += kLookEvery) {
    if (auto earlier = EarlierMismatch(rank)) return earlier;
    if (auto own = failure()) return own;
    if (auto theirs = LookAtFailures()) return theirs;
    if (network_ != nullptr) {
      network_->Announce();
      network_->Progress();
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  return std::nullopt;
}

Error FailureDetector::Explain(const InFlight& in_flight, const host::Fault& fault) {
  switch (fault.kind) {
    case host::Fault::Kind::foreign:
      if (const auto theirs = AwaitCounterpart(fault.peer, in_flight);
          theirs && theirs->signature != in_flight.signature) {
        return Mismatch(in_flight, fault.peer, *theirs);
      }
      if (auto named = AwaitName(fault.peer)) return *named;
      return {tuttiInvalidUsage,
              fmt::format(
                  "the ranks' calls do not match: {} called {}, but the data that {} sent belongs to another operation",
                  Who(fabric_.rank()), Describe(in_flight), Who(fault.peer))};
    case host::Fault::Kind::length:
      return {tuttiInvalidUsage, fmt::format("{} expects {} bytes from {} in {}, but {} were sent", Who(fabric_.rank()),
                                             fault.expected, Who(fault.peer), Describe(in_flight), fault.got)};
    case host::Fault::Kind::unreachable:
      return {tuttiRemoteError, fmt::format("{} could not read the memory of {} in {}; that process may have died",
                                            Who(fabric_.rank()), Who(fault.peer), Describe(in_flight))};
    case host::Fault::Kind::forged:
      return {tuttiRemoteError,
              fmt::format("{} sent {} a slot in {} that refers to memory that the sender may not use (kind {}): "
                          "the sender's memory is corrupted, or it is malicious",
                          Who(fault.peer), Who(fabric_.rank()), Describe(in_flight), fault.got)};
    case host::Fault::Kind::recalled: return ring::ReadFailure(fabric_.control(fault.peer));
    case host::Fault::Kind::none: break;
  }
  return {tuttiInternalError, fmt::format("an unknown fault in {}", Describe(in_flight))};
}

}  // namespace tutti::diagnostics
