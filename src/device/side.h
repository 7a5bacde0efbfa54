// A communicator's half on the GPU: its rank's state in device memory, the plans of its calls, and what becomes a
// launch.
//
// Calls are enqueued and return; the GPU keeps the sequence numbers, so that a captured graph can be replayed. Who
// waits, died, or called something else is found out by the device watch, from what the kernels publish.
//
// Thread-safety: Prepare and Find need the communicator's lock; the rest may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "src/device/clique.h"
#include "src/device/plans.h"
#include "src/device/proxy.h"
#include "src/device/windows.h"
#include "src/diagnostics/recorder.h"
#include "src/diagnostics/watch.h"
#include "src/init/host_network.h"

namespace tutti {

// What a rank knows of its communicator when its device side is made.
struct DeviceSetup {
  int device = TUTTI_DEVICE_NONE;
  const Settings* settings = nullptr;
  const System* system = nullptr;
  const Hosts* hosts = nullptr;
  const std::vector<Process>* roster = nullptr;
  SecretKey key;          // of connections to other hosts
  Conditions conditions;  // of the host's side: what is forced, what is deterministic
};

class DeviceSide {
 public:
  // Collective. Null, on every rank, unless every rank can use its device; then why not in *why. REQUIRES: every rank
  // names one.
  static std::unique_ptr<DeviceSide> Make(const DeviceSetup& setup, int rank, int nranks, const AllGather& all_gather,
                                          Deadline deadline, std::string* why);
  // Waits for the kernels, or stops them if the communicator has failed.
  ~DeviceSide();
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  const CudaDevice& device() const { return *device_; }
  const std::shared_ptr<DeviceClique>& clique() const { return clique_; }
  DevicePlans& plans() { return *plans_; }
  DeviceWindows& windows() { return *windows_; }
  RegisteredBuffers& registered() { return *registered_; }
  Fabric& control() { return *shm_; }
  DeviceProgress& progress() const { return *progress_; }
  // Operations that are done on the GPU: collectives, or (peer >= 0) messages to or from it.
  std::uint64_t Done(int peer, bool sends) const;

  // What these calls, in their order, are for a launch; all of one communicator, on `stream` and `others`.
  DevicePart Prepare(std::span<const Operation* const> operations, CuStream stream, std::vector<CuStream> others);
  // Calls that are done by a copy, in stream order, without a launch: of one rank alone, or to oneself.
  bool DoneByCopy(const Operation& operation, CuStream stream) const;
  // `from` is what it will be in `reader`'s order, and stays it until the copy is done.
  void Copy(void* to, CuStream writer, const void* from, CuStream reader, std::size_t bytes) const;

  // Some kernel of this rank may be running, or about to: also once a call was captured, for replays are not seen.
  bool MayRun() const;
  // Every kernel of this rank ends soon.
  void Stop();
  // Of launches; of graphs' replays, only their user knows when they have ended.
  bool AwaitIdle(std::chrono::milliseconds most) const { return clique_->AwaitIdle(most); }
  // The summary of the plan of the last operation that was prepared, even if the plan itself was forgotten.
  std::optional<PlanSummary> last_plan() const {
    return last_plan_ != nullptr ? last_plan_->summary() : forgotten_plan_;
  }

 private:
  DeviceSide(const DeviceSetup& setup, int rank, int nranks, const AllGather& all_gather, Deadline deadline);
  void MakeState();
  void TrimPlans();
  void JoinClique(const AllGather& all_gather);
  DeviceWork WorkOf(const Operation& operation, const DevicePlanEntry& plan) const;
  Reach ReachOf(const void* buffer, std::size_t bytes) const;

  int rank_, nranks_;
  bool zero_copy_;
  std::unique_ptr<CudaDevice> device_;
  std::shared_ptr<const KernelModule> kernels_;
  std::unique_ptr<Fabric> shm_;  // control blocks, for the watch
  std::unique_ptr<DeviceFabric> fabric_;
  HostNetwork network_;
  std::unique_ptr<DeviceArena> arena_;
  std::unique_ptr<DeviceWindows> windows_;
  std::unique_ptr<RegisteredBuffers> registered_;
  CudaMemory state_;   // DeviceRank, queues, lanes' progress
  CudaMemory pinned_;  // progress, abort
  CudaMemory barrier_;
  DeviceProgress* progress_ = nullptr;
  std::uint64_t* done_ = nullptr;  // by queue
  std::uint32_t* abort_ = nullptr;
  std::atomic<std::uint64_t> enqueued_{0};  // operations, of all queues
  std::shared_ptr<DeviceClique> clique_;
  std::unique_ptr<DevicePlans> plans_;
  const DevicePlanEntry* last_plan_ = nullptr;  // while it is kept
  std::optional<PlanSummary> forgotten_plan_;
  std::unique_ptr<DeviceProxy> proxy_;  // null where all ranks are on one host
};

}  // namespace tutti
