#include "src/diagnostics/failure_detector.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "executors/host/doorbell.h"
#include "transports/shm/process_register.h"

namespace tutti::diagnostics {
namespace {

std::vector<ring::ControlBlock*> BlocksOf(const shm::Fabric& fabric) {
  std::vector<ring::ControlBlock*> blocks;
  for (int r = 0; r < fabric.nranks(); ++r) blocks.push_back(&fabric.control(r));
  return blocks;
}

}  // namespace

FailureDetector::FailureDetector(shm::Fabric& fabric, progress::NetworkEngine* network,
                                 std::vector<bootstrap::Process> roster, std::string name,
                                 std::chrono::milliseconds timeout)
    : fabric_(fabric),
      network_(network),
      roster_(std::move(roster)),
      name_(std::move(name)),
      timeout_(timeout),
      history_(BlocksOf(fabric), fabric.rank()),
      audit_(fabric, history_),
      seen_dead_(static_cast<std::size_t>(fabric.nranks()), false),
      passed_(static_cast<std::size_t>(fabric.nranks())) {}

std::string FailureDetector::Who(int rank) const {
  return tutti::bootstrap::Describe(rank, roster_[static_cast<std::size_t>(rank)]);
}

std::string FailureDetector::Describe(const InFlight& in_flight) const {
  return DescribeWithoutSite(in_flight) + Site(in_flight.site);
}

std::string FailureDetector::DescribeWithoutSite(const InFlight& in_flight) const {
  const auto& operation = *in_flight.operation;
  return fmt::format("{} as {} {}{}", plan::DescribeCall(plan::PackCall(operation), operation.count),
                     operation.point_to_point() ? "message"
                     : operation.one_sided()    ? "one-sided operation"
                                                : "operation",
                     in_flight.sequence, name_.empty() ? "" : fmt::format(" of \"{}\"", name_));
}

std::string FailureDetector::DescribeNumbered(int rank, const RecordedCall& call) const {
  return fmt::format("{} as {} {}{}", call.Describe(), IsMessage(call) ? "message" : "operation", call.sequence,
                     lines_.At(fabric_.control(rank).sites, call.site()));
}

Error FailureDetector::End(const Error& failure, ring::RankState how) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    failure_ = failure;
    const std::string_view message = failure.what();
    auto& control = fabric_.control(fabric_.rank());
    const auto length = std::min(message.size(), ring::kFaultText - 1);
    std::memcpy(control.fault_text.data(), message.data(), length);
    control.fault_text[length] = '\0';
    control.fault_code.store(static_cast<std::uint32_t>(failure.code()), std::memory_order_relaxed);
    control.state.store(how, std::memory_order_release);
    if (how == ring::RankState::failed) {
      fabric_.control(fabric_.local().front()).failures.fetch_add(1, std::memory_order_release);
    }
    failed_.store(true, std::memory_order_release);
  }
  Log(Subject::faults, "rank {}: {}: {}", fabric_.rank(), ResultPhrase(failure.code()), failure.what());
  host::WakeAll(fabric_);
  if (network_ != nullptr) {
    network_->TellFailure(failure.code(), failure.what(), how == ring::RankState::stopped);
  }
  return failure;
}

std::optional<Error> FailureDetector::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<Error> FailureDetector::LookAtFailures() const {
  for (int r = 0; r < fabric_.nranks(); ++r) {
    const auto& control = fabric_.control(r);
    if (r == fabric_.rank() || control.state.load(std::memory_order_acquire) != ring::RankState::failed) continue;
    return ring::ReadFailure(control);
  }
  return std::nullopt;
}

// A rank that has stopped has done its part of what it had completed by then, and of nothing else. (A rank of another host
// tells what that was when it stops.)
std::optional<Error> FailureDetector::LookForStopped(const InFlight& in_flight) const {
  for (int r = 0; r < fabric_.nranks(); ++r) {
    const auto& control = fabric_.control(r);
    if (r == fabric_.rank() || control.state.load(std::memory_order_acquire) != ring::RankState::stopped) continue;
    if (!NeedsNothingFrom(r, in_flight)) return ring::ReadFailure(control);
  }
  return std::nullopt;
}

// A rank that has completed the operation, or every message of a pair, may be gone.
bool FailureDetector::NeedsNothingFrom(int rank, const InFlight& in_flight) const {
  if (!in_flight.operation->collective_call()) return rank != in_flight.operation->root;
  return fabric_.control(rank).completed.load(std::memory_order_acquire) >= in_flight.sequence;
}

std::vector<int> FailureDetector::Dead() const {
  std::vector<int> dead;
  for (int r = 0; r < fabric_.nranks(); ++r) {
    if (r != fabric_.rank() && fabric_.is_local(r) && shm::HasEnded(fabric_.pidfd(r))) dead.push_back(r);
  }
  return dead;
}

std::optional<std::string> FailureDetector::HowItEnded(int rank) const {
  if (fabric_.is_local(rank))
    return shm::HasEnded(fabric_.pidfd(rank)) ? std::optional<std::string>("died") : std::nullopt;
  auto why = network_->Lost(rank);
  if (why) why = fmt::format("was lost ({})", *why);
  return why;
}

std::optional<Error> FailureDetector::LookForDeath(const InFlight& in_flight, const Awaited& awaited,
                                                   std::chrono::steady_clock::duration waited) {
  int missed = -1;
  std::optional<std::string> died;  // preferred to a rank that left, which may follow from another death
  for (int r = 0; r < fabric_.nranks() && !died; ++r) {
    if (r == fabric_.rank()) continue;
    const bool local = fabric_.is_local(r), completed = NeedsNothingFrom(r, in_flight);
    if (local && completed) continue;  // also avoids the system call below
    // This rank does not always know what a rank of another host has completed; `awaited` shows whether it is missed.
    const auto& ranks = awaited.ranks;
    if (!local && (!awaited.confirmed || std::find(ranks.begin(), ranks.end(), r) == ranks.end())) continue;
    const bool left = fabric_.control(r).state.load(std::memory_order_acquire) == ring::RankState::left;
    const auto ended = left && local ? std::nullopt : HowItEnded(r);
    if (!left && !ended) continue;
    // The report that a rank of another host has completed may overtake its data. Data may arrive until the connections
    // have ended, and must be taken.
    if (completed && (!ended || waited < kLastSlots)) continue;
    // A rank of another host that fails on its own account also closes its connections. A rank not connected to it
    // learns the reason from others, or finds that others are gone.
    if (!local && !left && waited < kLastSlots) {
      network_->NeedAll();
      continue;
    }
    // A rank that left in order has sent everything it had to. A kernel may not have taken it yet.
    if (left && waited < kLastSlots) continue;
    // Its earlier data is still to be read: it counts as missed only if this rank still waits at the next look.
    if (!seen_dead_[static_cast<std::size_t>(r)]) {
      seen_dead_[static_cast<std::size_t>(r)] = true;
      continue;
    }
    if (missed >= 0 && left) continue;
    missed = r;
    if (!left) died = ended;
  }
  if (missed < 0) return std::nullopt;
  return Error{
      tuttiRemoteError,
      fmt::format("{} {} while {} waited for it in {}{}{}", Who(missed), died.value_or("destroyed its communicator"),
                  Who(fabric_.rank()), Describe(in_flight), LastCallOf(missed), died ? WhoElseEnded(missed) : "")};
}

std::string FailureDetector::LastCallOf(int rank) const {
  const auto& control = fabric_.control(rank);
  const auto last = ReadRecord(control, NewestRecord(control));
  return last ? fmt::format("; its last call was {}", DescribeNumbered(rank, *last)) : "";
}

// The missing rank may have ended because another one did, without being able to report that.
std::string FailureDetector::WhoElseEnded(int missed) const {
  std::string text;
  for (int r = 0; r < fabric_.nranks(); ++r) {
    const bool left = fabric_.control(r).state.load(std::memory_order_acquire) == ring::RankState::left;
    if (r == missed || r == fabric_.rank() || left || !HowItEnded(r)) continue;
    text += fmt::format("; {} {}, too", Who(r), fabric_.is_local(r) ? "died" : "was lost");
  }
  return text;
}

int FailureDetector::Cause(const InFlight& in_flight, const Awaited& awaited) const {
  const auto has_not_begun = [&](int peer) {
    return in_flight.operation->collective_call() &&
           fabric_.control(peer).started.load(std::memory_order_acquire) < in_flight.sequence;
  };
  const auto& ranks = awaited.ranks;
  const auto found = std::ranges::find_if(ranks, has_not_begun);
  return found != ranks.end() ? *found : ranks.empty() ? -1 : ranks.front();
}

std::optional<Error> FailureDetector::Look(const InFlight& in_flight, const Awaited& awaited,
                                           std::chrono::steady_clock::duration waited) {
  if (network_ != nullptr) {
    network_->Announce();
    network_->LookForSilence();
  }
  if (auto own = failure()) return own;
  if (auto theirs = LookAtFailures()) return theirs;
  if (auto stopped = LookForStopped(in_flight)) return stopped;
  if (auto mismatch = LookForMismatch(in_flight)) return mismatch;
  if (auto passed = LookForPassedMessage(in_flight, waited)) return passed;
  if (auto crossing = LookForCrossing(in_flight, waited)) return crossing;
  if (auto withheld = LookForWithheld(in_flight, awaited, waited)) return withheld;
  if (auto death = LookForDeath(in_flight, awaited, waited)) return death;
  if (waited < timeout_) return std::nullopt;
  const int cause = Cause(in_flight, awaited);
  return Error{tuttiTimeoutError, fmt::format("nothing moved for {} ms in {} of {}{}{}{}", timeout_.count(),
                                              DescribeWithoutSite(in_flight), Who(fabric_.rank()), Site(in_flight.site),
                                              cause < 0 ? "" : fmt::format(", which waits for {}", Who(cause)),
                                              WhereOthersAre(in_flight))};
}

}  // namespace tutti::diagnostics
