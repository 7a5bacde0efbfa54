// A communicator as one rank sees it: how its ranks meet, the control calls that they make together, who its members are,
// and the failure that ends it. What its calls do is its sides' business: src/host and, where every rank has a GPU,
// src/device.
//
// Thread-safety: the sides' calls and the control calls need the lock (std::lock_guard); getters, Abort and failure() do
// not.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/all_gather.h"
#include "src/bootstrap/control_plane.h"
#include "src/bootstrap/rendezvous/rendezvous.h"
#include "src/bootstrap/shrink/membership_agreement.h"
#include "src/communicator/control_call.h"
#include "src/device/failure_detector.h"
#include "src/host/host_side.h"
#include "src/plan/programs.h"
#include "topology/graph/system.h"

namespace tutti::comm {

// A communicator's configuration with every default filled in.
struct Options {
  Settings settings;  // the environment's, overridden by the config's fields
  std::string name;
  bool blocking = true;
  int device = TUTTI_DEVICE_NONE;
  std::uint64_t id = 0;  // of the rendezvous, equal on all ranks; 0: not known before they meet
  std::optional<cost_model::NetworkCosts> network_costs = {};  // what this rank's other communicators have measured
  int most_threads = std::numeric_limits<int>::max();  // that move data, where the settings do not say how many
};

// As far as they are known before the communicator is made. Asks the CUDA driver.
tuttiCommFacts_t FactsOf(const Options& options, int rank, int nranks);

// The extension's observer of a communicator, if it has one.
class Observer {
 public:
  explicit Observer(const tuttiCommFacts_t& facts);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  void* get() const { return observer_; }

 private:
  void* observer_ = nullptr;
};

class Communicator {
 public:
  // How the ranks meet.
  using Meet = std::function<std::unique_ptr<bootstrap::ControlPlane>(const Settings&, Deadline)>;
  // At a rendezvous. Polls `cancel` until all have come.
  static Meet At(const bootstrap::JoinTicket& ticket, int nranks, int rank, Cancellation cancel);

  // Collective. Polls `cancel` while it waits for other ranks, once they have met. From then on all ranks learn what
  // ends one of them.
  Communicator(const Meet& meet, Options options, Cancellation cancel);
  // Tells the peers that this rank has left. Local.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return control_plane_->rank(); }
  int size() const { return control_plane_->size(); }
  // Equal on all ranks, unique to this communicator. REQUIRES: the ranks have met.
  const std::string& identity() const { return identity_; }
  const Options& options() const { return options_; }
  // For the library on top; without a handle. REQUIRES: the ranks have met.
  tuttiCommFacts_t facts() const;

  // One thread at a time drives a communicator.
  void lock() {
    if (busy_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      LockSlowly();
  }
  bool try_lock() { return !busy_.exchange(true, std::memory_order_acquire); }
  void unlock() { busy_.store(false, std::memory_order_release); }

  // Throws tuttiInvalidArgument if the call cannot run as given: in place by a program that does not support it. Local.
  void Check(const plan::Operation& operation) const {
    if (!programs_.empty()) programs_.CheckPlace(operation);
  }
  // The observer of its calls; null: there is none.
  void* observer() const { return observer_->get(); }
  host_side::HostSide& host() { return *host_; }
  const host_side::HostSide& host() const { return *host_; }
  // Where calls on GPU memory go; null unless every rank has a device.
  device::DeviceSide* device() const { return device_.get(); }
  // Why device() is null, for a person.
  const std::string& why_no_device() const { return why_no_device_; }

  // Looks for ranks whose calls differ from this rank's, or that have failed; fails the communicator if there are any.
  std::optional<Error> Audit();
  // This rank makes no more calls. Compares its calls with those of every rank it can see; fails the communicator if
  // they differ. `waits`: for ranks of this host that may come to those calls.
  std::optional<Error> LastAudit(bool waits);
  // Makes the communicator dead; returns the failure that killed it (perhaps an earlier one).
  Error Fail(const Error& failure);
  std::optional<Error> failure() const { return host_->failure_detector().failure(); }
  bool failed() const { return host_->failure_detector().failed(); }
  bool suspended() const { return device_ != nullptr && device_->suspended(); }
  // Throws tuttiInvalidUsage if it is suspended.
  void RequireResumed() const;
  // From any thread.
  std::uint64_t MemoryStat(tuttiCommMemStat_t stat) const;
  // Records that the device side has enqueued the operation.
  void NoteEnqueued(const plan::Operation& operation) {
    host_->operations().NoteEnqueued(operation, device_->plans().last()->choice.candidate.algorithm);
  }
  // Waits for this rank's pending GPU work. Returns early if the communicator has failed.
  void AwaitDevice() const;

  // A kernel that finds a fault stops at once, so its stream is idle before there is an error message. If there is a
  // fault, waits for the message for as long as a fault report is promised to take. From any thread.
  void AwaitDeviceFault() const;

  // From any thread: anything that runs here, or on another rank, soon ends with an error, and nothing begins any more.
  void Revoke() { Stop("revoked"); }
  // Likewise; Shrink() ends, too.
  void Abort();

  // Local: slots, including network slots, may refer to this memory until it is deregistered. `handle` is its
  // beginning. Throws tuttiSystemError if a device cannot register it.
  void RegisterBuffer(std::byte* begin, std::size_t bytes);
  void DeregisterBuffer(std::byte* handle);
  void DeregisterWindow(const tuttiWindow* window);
  // `peer`'s part of the window, as this rank reaches it; empty if it does not. Throws tuttiInvalidArgument.
  std::span<std::byte> PartOf(const tuttiWindow* window, int peer) const;

  // Collective control calls. They throw, and leave the communicator alive unless a rank is gone or has made another
  // call. A rank that fails on its own account sends its error to the others, which fail with it; after that none of
  // these calls works any more, but operations continue.
  tuttiWindow* RegisterWindow(void* buffer, std::size_t bytes, bool symmetric);
  // Gives back memory of the GPU until Resume(); no call runs meanwhile. Without a device, both do nothing. Also throw
  // tuttiInvalidUsage if it is suspended, or not. A rank that cannot take its memory again leaves all ranks suspended.
  void Suspend();
  void Resume();
  // Null for a negative color.
  std::unique_ptr<Communicator> Split(int color, int key, const Options& options, const std::atomic<bool>& cancel);
  // Makes a communicator of the surviving ranks except `excluded` (ascending). Works after a failure, too. See
  // MembershipAgreement. `exact`: throws tuttiRemoteError, on all ranks alike, if another rank is gone.
  std::unique_ptr<Communicator> Shrink(const std::vector<int>& excluded, bool exact, const Options& options,
                                       const std::atomic<bool>& cancel);
  // Makes one with additional ranks, which join by the id that one rank of this communicator provides.
  std::unique_ptr<Communicator> Grow(int nranks, const std::optional<tuttiUniqueId>& id, const Options& options,
                                     const std::atomic<bool>& cancel);

  // Called when this rank makes no more control calls because it called `what`. The other ranks' control calls fail
  // with that, or with the communicator's earlier failure. REQUIRES: not locked.
  void RefuseControlCalls(std::string_view what);

  void ReadCounters(tuttiCounters_t& counters);
  // What the cost model says of the collective; 0 for messages and for a single rank. REQUIRES: locked.
  double EstimatedMicroseconds(const plan::Operation& operation, bool on_device) const;
  tuttiAlgorithm_t last_algorithm() const { return host_->operations().last_algorithm(); }
  std::string DescribeLast() const;
  // The flight recorder, as text.
  std::string DumpRecords() const;
  // Writes this rank's records, for `tutti diagnose`, as JSON into a file. From any thread. Throws tuttiSystemError.
  void WriteDump(const std::string& path) const;

 private:
  // The last part of a control call that makes a communicator from ranks of this one: joins it. `meet` is given a
  // function that it calls when the others can see there if this rank ends. Until all of this one's ranks have come so
  // far, or need not, the end of one shows here.
  using MeetFromHere = std::function<std::unique_ptr<bootstrap::ControlPlane>(const Settings&, Deadline,
                                                                              const std::function<void()>& arrived)>;
  std::unique_ptr<Communicator> Join(ControlCall call, const MeetFromHere& meet, const Options& options,
                                     Cancellation cancel);
  void AwaitArrivals(ControlCall call, Cancellation cancel);
  void LockSlowly();
  void Stop(std::string_view what);
  void DumpRecorder() const;
  bool IsOnDevice(const void* memory) const;
  AllGather MakeAllGather() { return MakeAllGather(cancel_); }
  AllGather MakeAllGather(Cancellation cancel);
  Deadline InitDeadline() const { return Deadline::After(options_.settings.init_timeout()); }

  // The steps of making a communicator, all collective, once the ranks have met; in setup.cc.
  void SetUp(Deadline deadline);
  void PrepareMembershipAgreement(const init::Meeting& meeting);
  void AddPlanFacts(const init::Meeting& meeting, const init::Agreement& agreement,
                    cost_model::TuningContext& tuning) const;
  void ConnectDevice(const init::Meeting& meeting, const init::Agreement& agreement,
                     const cost_model::TuningContext& tuning);
  void BeginTogether(Deadline deadline);

  // Collective, and the first exchange of every control call. Throws tuttiInvalidUsage on all ranks if they are in
  // different control calls, or have made different collective calls so far.
  void RequireSameCalls(ControlCall call, const AllGather& all_gather);
  // Runs this rank's part of a control call. Reports a failure to the other ranks if they cannot see it themselves.
  template <typename Body>
  auto InControlCall(ControlCall call, Body&& body) {
    try {
      return body();
    } catch (...) {
      EndControlCall(call);
    }
  }
  [[noreturn]] void EndControlCall(ControlCall call);
  Error RefusalOf(const Error& failure, std::string_view where) const;
  Error RefusalOf(const Error& failure, ControlCall call) {
    return RefusalOf(failure, fmt::format("in {}{}", NameOf(call), Site()));
  }
  // " at train.py:41 in step": where this thread made its control call; nothing if that is not known. REQUIRES: locked.
  std::string Site();

  Options options_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> aborted_{false};
  Cancellation cancel_;
  std::unique_ptr<bootstrap::ControlPlane> control_plane_;
  plan::Programs programs_;
  topology::System system_;  // of all hosts
  std::string identity_;
  TickCalendar calendar_;
  std::multimap<std::byte*, std::size_t> registered_;    // bytes that the network has; or 0
  std::unique_ptr<plan::ExternalTuner> external_tuner_;  // null: there is none
  std::unique_ptr<Observer> observer_;
  std::optional<host_side::HostSide> host_;
  std::unique_ptr<shrink::MembershipAgreement> membership_agreement_;
  std::unique_ptr<device::DeviceSide> device_;
  std::string why_no_device_;
  std::atomic<bool> busy_{false};
};

}  // namespace tutti::comm
