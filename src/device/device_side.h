// A communicator's half on the GPU: its rank's state in device memory, the plans of its calls, the parts of launches made
// from them, and the watch over its kernels.
//
// Calls are enqueued and return; the GPU keeps the sequence numbers, so that a captured graph can be replayed. The failure
// detector finds ranks that wait, died, or called something else, from what the kernels publish.
//
// Thread-safety: Prepare needs the communicator's lock; the rest may be called from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>

#include "base/all_gather.h"
#include "src/device/launch_group.h"
#include "src/device/plans.h"
#include "src/device/proxy.h"
#include "src/device/signals.h"
#include "src/device/windows.h"
#include "src/diagnostics/call_sites.h"
#include "src/init/host_network.h"
#include "src/init/meeting.h"
#include "src/memory/device_buffers.h"

namespace tutti::device {

class DeviceFailureDetector;

// What a device side is made from, besides the meeting.
struct DeviceSetup {
  int device = TUTTI_DEVICE_NONE;
  const topology::System* system = nullptr;
  auth::SecretKey key;               // for connections to other hosts
  cost_model::TuningContext tuning;  // the host side's: what is forced, what is deterministic
  std::optional<cost_model::NetworkCosts> network_costs;  // likewise: the same on all ranks
  bool processor_each = false;                            // the ranks of this machine do not outnumber its processors
  const plan::ExternalTuner* external = nullptr;  // outlives the side
  std::function<std::optional<Error>()> failure;  // the communicator's, if it has failed; from any thread
  std::function<void(const Error&)> fail;         // makes it fail; likewise
};

class DeviceSide {
 public:
  // Collective. Null, on every rank, unless every rank can use its device; *why then gives the reason. REQUIRES: every
  // rank names a device.
  static std::unique_ptr<DeviceSide> Make(const DeviceSetup& setup, const init::Meeting& meeting, std::string* why);
  // Waits for the kernels, or stops them if the communicator has failed.
  ~DeviceSide();
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  const cuda_transport::CudaDevice& device() const { return *device_; }
  const std::shared_ptr<LaunchGroup>& launch_group() const { return launch_group_; }
  DevicePlans& plans() { return *plans_; }
  DeviceWindows& windows() { return *windows_; }
  DeviceSignals& signals() { return *signals_; }
  DeviceFailureDetector& failure_detector() { return *failure_detector_; }
  memory::RegisteredBuffers& registered() { return *registered_; }
  memory::KnownBuffers& known_buffers() const { return known_buffers_; }
  shm::Fabric& shm() { return *shm_; }
  ring::ControlBlock& control() const { return shm_->control(rank_); }
  progress::NetworkEngine* network() const { return network_.engine.get(); }  // null where all ranks are on one host
  cuda_kernels::DeviceProgress& progress() const { return *progress_; }
  // Operations completed on the GPU: collectives, or (peer >= 0) messages to or from that peer.
  std::uint64_t Done(int peer, bool sends) const;

  // A launch's part made from these calls, in order; all of one communicator, on `stream` and `others`.
  DevicePart Prepare(std::span<const plan::Operation* const> operations, cuda_transport::CuStream stream,
                     std::vector<cuda_transport::CuStream> others);
  // Calls done by a copy in stream order, without a launch: those of a single rank, or (Copy) to oneself.
  bool DoneByCopy(const plan::Operation& operation, cuda_transport::CuStream stream) const;
  // Copies `from` as it is in `reader`'s order, and keeps `reader` from changing it until the copy is done.
  void Copy(void* to, cuda_transport::CuStream writer, const void* from, cuda_transport::CuStream reader,
            std::size_t bytes) const;

  // Collective: gives back memory of the GPU that only running kernels need, and takes it again; nothing else changes. The
  // reason why a rank could not, the same on all ranks: then nothing has changed at all. REQUIRES: AwaitIdle().
  std::string Suspend(const AllGather& all_gather);
  std::string Resume(const AllGather& all_gather, Deadline deadline);
  // From any thread, as are the bytes: of the GPU's memory that Suspend() gives back, and the rest.
  bool suspended() const { return suspended_.load(std::memory_order_acquire); }
  std::size_t suspendable_bytes() const { return fabric_->returnable_bytes(); }
  std::size_t persistent_bytes() const;

  // Whether a kernel of this rank may be running or about to; always once a call was captured, as replays are not seen.
  bool MayRun() const;
  // Makes every kernel of this rank stop soon; those that have failed may hold their streams (TUTTI_HOLD).
  void Stop();
  // Makes every kernel of this rank end soon.
  void Release();
  // Waits for launches only; for graphs' replays, only their user knows when they have ended.
  bool AwaitIdle(std::chrono::milliseconds most) const {
    return launch_group_->AwaitIdle(rank_, most) && signals_->AwaitIdle(most);
  }

 private:
  DeviceSide(const DeviceSetup& setup, const init::Meeting& meeting);
  void MakeState(std::uint64_t count_from, bool holds);
  void TrimPlans();
  void JoinLaunchGroup(bool processor_each, const AllGather& all_gather);
  cuda_kernels::DeviceWork WorkOf(const plan::Operation& operation, const DevicePlanEntry& plan) const;
  host::RemoteAccess RemoteAccessOf(const void* buffer, std::size_t bytes) const;

  // A barrier's input and output, one byte each, on separate cache lines.
  static constexpr std::size_t kBarrierPart = ring::kCacheLine;

  int rank_, nranks_;
  bool zero_copy_;
  bool copy_engines_;  // carry what they can
  std::uint32_t most_message_blocks_ = 0;
  bool reports_ = plan::WantsPlans();
  std::unique_ptr<cuda_transport::CudaDevice> device_;
  std::shared_ptr<const cuda::KernelModule> kernels_;
  std::unique_ptr<shm::Fabric> shm_;  // control blocks, for the failure detector
  std::unique_ptr<diagnostics::CallSites> sites_;
  std::unique_ptr<cuda_transport::DeviceFabric> fabric_;
  init::HostNetwork network_;
  std::unique_ptr<cuda_transport::DeviceArena> arena_;
  std::unique_ptr<DeviceWindows> windows_;
  std::unique_ptr<memory::RegisteredBuffers> registered_;
  mutable memory::KnownBuffers known_buffers_;
  cuda_transport::CudaMemory state_;   // DeviceRank, queues, lanes' progress
  cuda_transport::CudaMemory pinned_;  // progress, abort
  cuda_transport::CudaMemory barrier_;
  cuda_kernels::DeviceProgress* progress_ = nullptr;
  std::uint64_t* done_ = nullptr;  // by queue
  std::uint32_t* abort_ = nullptr;
  std::atomic<std::uint64_t> enqueued_{0};  // operations, of all queues
  std::unique_ptr<DeviceSignals> signals_;
  std::shared_ptr<LaunchGroup> launch_group_;
  std::unique_ptr<DevicePlans> plans_;
  std::atomic<bool> suspended_{false};
  std::unique_ptr<DeviceProxy> proxy_;  // null where all ranks are on one host
  std::unique_ptr<DeviceFailureDetector> failure_detector_;
};

}  // namespace tutti::device
