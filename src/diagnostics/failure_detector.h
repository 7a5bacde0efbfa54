// Explains a wait that makes no progress: which rank died, left, aborted, called something else, or never came.
//
// Thread-safety: the thread that drives the communicator calls Look*; Fail and failure() from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "executors/host/run.h"
#include "src/bootstrap/join_messages.h"
#include "src/diagnostics/audit.h"
#include "src/diagnostics/recorder.h"
#include "src/diagnostics/source_lines.h"
#include "transports/progress/network.h"
#include "transports/shm/fabric.h"

namespace tutti::diagnostics {

// The operation that this rank is in.
struct InFlight {
  const plan::Operation* operation = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t signature = 0;
  std::uint32_t site = 0;  // where it was called, by number (transports/ring/call_site.h)
};

// The ranks that an operation waits for.
struct Awaited {
  std::vector<int> ranks;
  bool confirmed = true;  // whether each was found still awaited since the look before
};

class FailureDetector {
 public:
  // `network`: the fabric's; null where all ranks are on one host. Both outlive this.
  FailureDetector(shm::Fabric& fabric, progress::NetworkEngine* network, std::vector<bootstrap::Process> roster,
                  std::string name, std::chrono::milliseconds timeout);

  // Called while `in_flight` waits for `awaited`; `waited`: time since anything moved. Returns the failure that must
  // end the wait, if any.
  std::optional<Error> Look(const InFlight& in_flight, const Awaited& awaited,
                            std::chrono::steady_clock::duration waited);
  // The code that drives the communicator reports each collective that begins to history(), and asks MustAudit() after
  // each operation.
  History& history() { return history_; }
  bool MustAudit(const plan::Operation& operation) { return audit_.Due(operation); }
  // Looks for ranks whose collectives differ, and for ranks of this host that have failed. Does not wait for any rank.
  std::optional<Error> Audit();
  // Likewise for differing collectives, at every rank whose memory is readable or whose report has arrived.
  std::optional<Error> Compare();
  // Likewise for a rank that makes no more calls. What it does not find now it never learns, so it gives ranks of this
  // host a second to come to the collectives that ended here without them.
  std::optional<Error> CompareLast();
  // The failure behind a fault of the data path.
  Error Explain(const InFlight& in_flight, const host::Fault& fault);

  // Makes the communicator dead, for this rank and (through shared memory) for every other; the first call wins, and
  // every call returns its failure.
  Error Fail(const Error& failure) { return End(failure, ring::RankState::failed); }
  // Likewise because this rank wants it: other ranks fail only where they wait for it.
  Error Stop(const Error& stopped) { return End(stopped, ring::RankState::stopped); }
  std::optional<Error> failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // Of the awaited ranks, one that has not begun the call, if there is one: it is the cause, and may wait for this rank in
  // another call. -1: none is awaited.
  int Cause(const InFlight& in_flight, const Awaited& awaited) const;
  // Ranks of this host whose processes have ended.
  std::vector<int> Dead() const;
  // "rank 3 (host node1, pid 4711)".
  std::string Who(int rank) const;
  std::string Describe(const InFlight& in_flight) const;
  // " at train.py:41 in step": where this rank called, by number (transports/ring/call_site.h).
  std::string Site(std::uint32_t number) const { return lines_.At(fabric_.control(fabric_.rank()).sites, number); }
  // A call on the record of `rank`: "all_reduce(count=8, float32, sum) at train.py:41 in step".
  std::string Describe(int rank, const RecordedCall& call) const {
    return call.Describe() + lines_.At(fabric_.control(rank).sites, call.site());
  }
  // The same with the call's number: "all_reduce(count=8, float32, sum) as operation 5 at train.py:41 in step".
  std::string DescribeNumbered(int rank, const RecordedCall& call) const;

 private:
  std::string DescribeWithoutSite(const InFlight& in_flight) const;
  Error End(const Error& failure, ring::RankState how);
  std::optional<Error> LookAtFailures() const;
  std::optional<Error> LookForStopped(const InFlight& in_flight) const;
  std::optional<Error> LookForMismatch(const InFlight& in_flight);
  std::optional<Error> LookForPassedMessage(const InFlight& in_flight, std::chrono::steady_clock::duration waited);
  std::optional<Error> LookForWithheld(const InFlight& in_flight, const Awaited& awaited,
                                       std::chrono::steady_clock::duration waited);
  std::optional<Error> LookForCrossing(const InFlight& in_flight, std::chrono::steady_clock::duration waited);
  std::optional<Error> LookForDeath(const InFlight& in_flight, const Awaited& awaited,
                                    std::chrono::steady_clock::duration waited);
  // "died", ...; nothing if the rank has not ended as far as this rank can see.
  std::optional<std::string> HowItEnded(int rank) const;
  // "; its last call was ...", if one is on record.
  std::string LastCallOf(int rank) const;
  // "; so was rank 2 (...)" for each other rank that has ended, too.
  std::string WhoElseEnded(int missed) const;
  bool NeedsUs(int rank, const RecordedCall& theirs) const;
  bool AwaitsUs(int rank) const;
  bool NeedsNothingFrom(int rank, const InFlight& in_flight) const;
  std::optional<RecordedCall> AwaitCounterpart(int rank, const InFlight& in_flight) const;
  std::optional<RecordedCall> Counterpart(int rank, const InFlight& in_flight) const;
  std::optional<RecordedCall> LaterMessage(const InFlight& in_flight) const;
  Error Mismatch(const InFlight& in_flight, int rank, const RecordedCall& theirs) const;
  std::optional<Error> EarlierMismatch(int rank) const;
  Error Disagreement(int rank) const;
  std::optional<Error> AwaitName(int rank) const;
  std::string WhereOthersAre(const InFlight& in_flight) const;
  std::string WaitsFrom(int rank) const;

  // By then even a kernel, or a helper thread on a busy machine, has taken everything that arrived.
  static constexpr std::chrono::milliseconds kLastSlots{500};

  shm::Fabric& fabric_;
  progress::NetworkEngine* const network_;
  std::vector<bootstrap::Process> roster_;
  std::string name_;
  std::chrono::milliseconds timeout_;
  History history_;
  class Audit audit_;
  std::vector<bool> seen_dead_;  // by rank: dead at the previous look
  struct Passed {
    std::uint64_t sequence = 0;
    std::chrono::steady_clock::duration waited{};
  };
  struct Withheld {
    std::uint64_t sequence = 0;  // this rank's collective
    int rank = -1;               // an awaited one that has ended it
    std::chrono::steady_clock::duration waited{};
  };
  struct Crossing {
    std::uint64_t sequence = 0, record = 0;  // this rank's message, and the peer's newest operation
    std::chrono::steady_clock::duration waited{};
  };
  Crossing crossing_;           // as it was first seen
  Withheld withheld_;           // as it was first seen
  std::vector<Passed> passed_;  // by rank: the message that it was first seen to have passed, and when
  std::atomic<bool> failed_{false};
  mutable SourceLines lines_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

}  // namespace tutti::diagnostics
