// The host operations of a communicator, in order: each gets its plan and its number, is recorded where peers can read
// it, is bound to its buffers, and is counted when it ends.
//
// Thread-safety: the thread that drives the communicator; last_algorithm() and Send() from any thread.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "base/clocks/clock.h"
#include "src/diagnostics/call_sites.h"
#include "src/diagnostics/failure_detector.h"
#include "src/diagnostics/recorder.h"
#include "src/diagnostics/trace.h"
#include "src/host/repeated_call.h"
#include "src/host/signals.h"
#include "src/host/windows.h"
#include "src/plan/plan_cache.h"

namespace tutti::host_side {

// The sequence and digest of consecutive operations.
struct CallOrder {
  std::uint64_t sequence = 0;
  std::uint64_t digest = 0;

  // Adds an operation; returns its number.
  std::uint64_t Next(std::uint64_t signature) {
    digest = ring::NextDigest(digest, signature);
    return ++sequence;
  }
};

// An operation that has begun and not yet ended.
struct Active {
  const plan::Operation* operation = nullptr;
  plan::BoundPlan* plan = nullptr;  // null for one-sided operations
  std::uint64_t sequence = 0;
  std::uint32_t tag = 0;
  std::uint64_t record = 0;
  std::int64_t started = 0;  // ticks
  std::uint64_t origin = 0;  // PackOrigin()

  diagnostics::InFlight in_flight() const {
    return {operation, sequence, plan == nullptr ? 0 : plan->signature, ring::SiteIn(origin)};
  }
};

class Operations {
 public:
  // All outlive this.
  struct Parts {
    const Settings& settings;
    const plan::Programs& programs;
    shm::Fabric& fabric;
    diagnostics::FailureDetector& failure_detector;
    const HostWindows& windows;
    diagnostics::Trace* trace;  // null: there is none
    bool observed;              // by the library on top
  };
  Operations(const Parts& parts, const plan::PlanContext& context);

  // Begins an operation: finds its plan, publishes it, binds its buffers. REQUIRES: operations of one communicator end
  // in the order they begin, and so do the messages of one pair and direction; `operation` outlives the result. Throws
  // tuttiInternalError.
  Active Begin(const plan::Operation& operation);
  // The earlier call that this one repeats, perhaps with other buffers, which are valid. Null where this cannot be seen
  // quickly.
  RepeatedCall* Repeated(const plan::PlainCall& call) {
    auto* const repeated = repeated_.Find(call);
    if (repeated == nullptr || repeated->plan().trial == nullptr) [[likely]]
      return repeated;
    return repeated->plan().trial->Keeps(repeated->plan().tried) ? repeated : nullptr;
  }
  // The operation that must run before that collective or message. The caller then asks again. Null: none.
  const plan::Operation* Before(const plan::Operation& next) { return trials_ ? trials_->Before(next) : nullptr; }
  // Begins that operation again. The result is good until the next operation begins. The call is not published yet, so
  // that its first slots can be filled before: while they travel, the caller publishes it by Publish(). REQUIRES:
  // Repeated(call) found it.
  Active BeginAgain(RepeatedCall& repeated, const plan::PlainCall& call) noexcept;
  // REQUIRES: `active` is BeginAgain(repeated, ...), and this rank has waited for no other since.
  void Publish(Active& active, const RepeatedCall& repeated) noexcept { PublishCollective(active, repeated.packed()); }
  // Ends an operation successfully, and counts it. From time to time checks the other ranks; returns an error if one
  // has called something else in one of the operations so far, or has failed.
  std::optional<Error> End(const Active& active) {
    if (active.operation->observed != nullptr) active.operation->observed->End();
    return Count(active, Ticks()) ? parts_.failure_detector.Audit() : std::nullopt;
  }
  // The same for one-sided operations.
  Active BeginOneSided(const plan::Operation& operation);
  void EndOneSided(const Active& active);
  // Takes the signals that the operation waits for, if they have come; it may be ended then.
  bool Take(const plan::Operation& wait) { return signals_.Take(wait.root, wait.signal, wait.count); }
  // Puts and signals, from any thread. The rank that is signalled sleeps, perhaps, and must be woken.
  void Send(const plan::Operation& operation) const;
  // The first part of End; the operation ends at `now`. True: it is time to check the other ranks
  // (FailureDetector::Audit).
  bool Count(const Active& active, std::int64_t now);

  // Trim: if there are many. Plans are made again when they are needed. REQUIRES: nothing runs.
  void Trim() {
    if (plans_.full()) [[unlikely]]
      ForgetPlans();
  }
  void ForgetPlans();
  // A table decides from now on which plan serves.
  void EndTrials() {
    ForgetPlans();
    trials_.reset();
  }

  // The number of the place where a call was made (diagnostics::CallSites), for messages.
  std::uint32_t SiteNumber(std::uint64_t site, const std::shared_ptr<const std::string>& text);

  // Adds the operations so far, and the bytes that they moved.
  void AddTraffic(tuttiCounters_t& counters) const { plans_.AddTraffic(counters); }
  // Records that a GPU's operation was the last one.
  void NoteEnqueued(const plan::Operation& operation, tuttiAlgorithm_t algorithm);
  tuttiAlgorithm_t last_algorithm() const { return last_algorithm_.load(std::memory_order_relaxed); }
  // The last operation.
  struct Last {
    std::uint64_t call = 0, count = 0;
    bool on_device = false;
    std::optional<plan::PlanSummary> plan = {};  // of an operation on the host
  };
  Last last() const;

 private:
  // What the record says of an operation's origin.
  std::uint64_t OriginOf(std::uint64_t site, const std::shared_ptr<const std::string>& text,
                         tuttiAlgorithm_t algorithm);
  void FindSite(RepeatedCall& repeated, const plan::PlainCall& call) noexcept;
  // Publishes the operation's record. REQUIRES: it has its sequence number.
  void Record(Active& active, std::uint64_t packed);
  // Gives a collective its number and the tag of its slots.
  void NumberCollective(Active& active) {
    active.sequence = collectives_.Next(active.plan->signature);
    active.tag = ring::OperationTag(collectives_.digest);
  }
  // Publishes number and record. REQUIRES: it is numbered, and no collective is numbered since.
  void PublishCollective(Active& active, std::uint64_t packed);
  void AddToTrace(const Active& active, tuttiAlgorithm_t algorithm);
  void NoteTime(const Active& active, std::int64_t now);
  void BindBuffers(const Active& active, host::Launch& launch);
  host::RemoteAccess RemoteAccessOf(const void* buffer, std::size_t bytes, bool cma) const;

  Parts parts_;
  ring::ControlBlock& control_;
  plan::PlanCache plans_;
  std::optional<plan::Trials> trials_;
  diagnostics::Recorder recorder_;
  diagnostics::CallSites sites_;
  CallOrder collectives_;
  std::vector<CallOrder> sent_, received_;  // messages by peer
  HostSignals signals_;
  std::vector<std::uint64_t> signalled_, awaited_;  // one-sided operations by peer
  struct {
    std::byte input{}, output{};
  } barrier_;
  const bool reports_;  // every call's plan, to the library on top
  const bool keeps_calls_;
  RepeatedCalls repeated_;
  std::atomic<tuttiAlgorithm_t> last_algorithm_{tuttiAlgorithmNone};
  std::uint64_t last_call_ = 0, last_count_ = 0;
  bool last_on_device_ = false;
};

// Inline, because a repeated small call consists of these.

inline void Operations::Record(Active& active, std::uint64_t packed) {
  active.started = Ticks();
  const auto algorithm = active.plan->choice.candidate.algorithm;
  active.record = recorder_.Begin(
      {active.sequence, active.plan->signature, packed, active.operation->count, active.started, active.origin});
  plans_.Use(*active.plan);
  last_call_ = packed;
  last_count_ = active.operation->count;
  last_algorithm_.store(algorithm, std::memory_order_relaxed);
  last_on_device_ = false;
}

inline void Operations::PublishCollective(Active& active, std::uint64_t packed) {
  Record(active, packed);
  // After the record, so that a rank that sees the number finds the record.
  control_.started.store(active.sequence, std::memory_order_release);
  parts_.failure_detector.history().Begin(active.sequence, collectives_.digest);
}

inline Active Operations::BeginAgain(RepeatedCall& repeated, const plan::PlainCall& call) noexcept {
  Active active{&repeated.With(call), &repeated.plan()};
  if (repeated.site() != call.site) [[unlikely]]
    FindSite(repeated, call);
  active.origin = repeated.origin();
  NumberCollective(active);
  active.plan->run.StartPass(static_cast<const std::byte*>(call.input), static_cast<std::byte*>(call.output),
                             active.tag);
  return active;
}

inline bool Operations::Count(const Active& active, std::int64_t now) {
  ++active.plan->operations;
  if (!active.operation->point_to_point()) control_.completed.store(active.sequence, std::memory_order_release);
  recorder_.End(active.record, now);
  if (parts_.trace != nullptr) [[unlikely]]
    AddToTrace(active, active.plan->choice.candidate.algorithm);
  if (trials_) [[unlikely]]
    NoteTime(active, now);
  return parts_.failure_detector.MustAudit(*active.operation);
}

}  // namespace tutti::host_side
