// A communicator's half on the host: its rank's rings to the other ranks, the operations on host memory that run over them,
// the threads that wait for them, and the watch over the other ranks.
//
// Thread-safety: operations(), drivers and windows need the communicator's lock; the rest may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executors/host/drive.h"
#include "executors/host/helper_threads.h"
#include "src/diagnostics/failure_detector.h"
#include "src/diagnostics/trace.h"
#include "src/host/operations.h"
#include "src/host/windows.h"
#include "src/init/agreement.h"
#include "src/init/host_network.h"
#include "src/init/meeting.h"
#include "src/plan/external_tuner.h"
#include "src/plan/plan_selector.h"

namespace tutti::host_side {

class HostSide {
 public:
  // Collective: connects the ranks. `key`: for connections to other hosts. `nics`: src/init/near_nics.h. `channels`: of
  // collectives. `known`: what messages between hosts cost, as other communicators of these ranks have measured.
  HostSide(const init::Meeting& meeting, const init::Agreement& agreement, const auth::SecretKey& key,
           const std::vector<std::string>& nics, int channels, const std::optional<cost_model::NetworkCosts>& known);
  HostSide(const HostSide&) = delete;
  HostSide& operator=(const HostSide&) = delete;

  // Adds what the rings allow to what plans depend on.
  void AddLimits(cost_model::TuningContext& tuning) const;
  // Collective: operations may begin afterwards. `programs` and `external`, which may be null, outlive this. `observed`:
  // by the library on top.
  void Start(const init::Meeting& meeting, const init::Agreement& agreement, cost_model::TuningContext tuning,
             const plan::Programs& programs, const plan::ExternalTuner* external, bool observed);
  // Tells the peers that this rank has left in order, unless it has failed.
  void Leave() { init::Leave(fabric_, network_); }

  int rank() const { return fabric_.rank(); }
  const shm::Hosts& hosts() const { return fabric_.hosts(); }
  // Of collectives. One more is for messages between pairs, which are ordered separately.
  int channels() const { return fabric_.layout().channels() - 1; }
  ring::ControlBlock& control(int rank) const { return fabric_.control(rank); }
  ring::ControlBlock& control() const { return control(rank()); }
  // Null if all ranks are on one host.
  progress::NetworkEngine* network() const { return network_.engine.get(); }
  // The costs of messages between hosts, the same on all ranks; null if all are on one host.
  const std::optional<cost_model::NetworkCosts>& network_costs() const { return network_.costs; }
  tuttiTransport_t transport() const { return network_.transport(); }
  HostWindows& windows() { return windows_; }
  const HostWindows& windows() const { return windows_; }
  diagnostics::FailureDetector& failure_detector() { return failure_detector_; }
  const diagnostics::FailureDetector& failure_detector() const { return failure_detector_; }
  // The rank that this one waits for, as of the last look; -1: none.
  int waits_for() const { return waits_for_.load(std::memory_order_relaxed); }

  Operations& operations() { return *operations_; }
  const Operations& operations() const { return *operations_; }
  // The choice of plans. Tools may change it: while nothing runs, and on all ranks between the same operations.
  const plan::PlanSelector& selector() const { return *selector_; }
  void UseTable(tuner::SelectionTable table);

  // Until SideBySide(false), operations that are about to begin may run side by side.
  void SideBySide(bool several) { control().several.store(several ? 1 : 0, std::memory_order_release); }
  // For a Driver: looks for a reason to stop. `awaited`: the result of Run::WaitsFor for the operation's channels.
  std::optional<Error> Look(const Active& active, const diagnostics::Awaited& awaited,
                            std::chrono::steady_clock::duration waited);
  Error Explain(const Active& active, const host::Fault& fault) {
    return failure_detector_.Explain(active.in_flight(), fault);
  }
  // Sends filled slots at once; arrivals are there at the next sweep. A rank that is done waits for nothing, but its
  // peers may wait to learn which slots it has emptied. True: something moved.
  bool MoveNetwork(bool done) const {
    return network() != nullptr && (done ? network()->Push() : network()->Progress());
  }

  // For a wait of that kind. REQUIRES: locked.
  host::Driver& driver(host::WhoWaits who) {
    driver_.Use(wait_policy(who), who == host::WhoWaits::caller ? meanwhile_ : host::Meanwhile{});
    return driver_;
  }
  // What callers want done while they wait, from the next operation on. REQUIRES: locked.
  void Meanwhile(const host::Meanwhile& meanwhile) { meanwhile_ = meanwhile; }
  const host::WaitPolicy& wait_policy(host::WhoWaits who) const {
    return who == host::WhoWaits::stream ? stream_wait_policy_ : wait_policy_;
  }
  // The helper threads that take part in the operation; null: none does. REQUIRES: locked.
  host::HelperThreads* HelpersOf(const Active& active);
  // The driver of helper thread `index`: 1, 2, ...
  host::Driver& helper_driver(int index, host::WhoWaits who) {
    auto& driver = helper_drivers_[static_cast<std::size_t>(index) - 1];
    driver.Use(wait_policy(who));
    return driver;
  }
  // Wakes this host's sleeping ranks, including this rank's other threads.
  void WakeSleepers() { host::WakeSleepers(fabric_); }

  // Adds the operations so far, what they moved, and their waits. REQUIRES: locked.
  void AddCounters(tuttiCounters_t& counters) const;

 private:
  void ChooseWaits(const Settings& settings, const init::Agreement& agreement);
  void StartHelpers();

  shm::Fabric fabric_;
  init::HostNetwork network_;
  HostWindows windows_;
  diagnostics::FailureDetector failure_detector_;
  std::atomic<int> waits_for_{-1};
  // What Start() makes:
  std::optional<plan::PlanSelector> selector_;
  host::WaitPolicy wait_policy_, stream_wait_policy_;
  host::Sleeper sleeper_;
  host::Driver driver_;
  host::Meanwhile meanwhile_;
  int threads_ = 1;                           // that may move data, this rank's own one included
  bool threads_forced_ = false;               // they take part in everything that has several channels
  std::vector<host::Driver> helper_drivers_;  // by helper thread
  std::unique_ptr<host::HelperThreads> helper_threads_;
  std::optional<diagnostics::Trace> trace_;
  std::optional<Operations> operations_;
};

}  // namespace tutti::host_side
