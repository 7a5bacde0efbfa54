// The c10d backend `tutti`: implements torch.distributed's calls on tensors in host memory and on devices (devices.h).
//
// A call checks its tensors in the caller's thread, issues an operation on a queue and returns its Work without
// waiting (task_queue.h describes which thread runs it, device_operation.h what differs on a device). Collectives of
// one group run in the order of issue; sends and receives run in order per partner, direction and tag. Each device has
// its own order.
//
// Older PyTorch versions lack some of these calls and never make them, so those calls are declared without `override`.
//
// Files: backend.cc, groups.cc, reconfigure.cc, reductions.cc, moves.cc, point_to_point.cc.
//
// Thread-safety: as c10d requires: the caller issues ordered calls from one thread or orders them itself. abort and
// getError may be called from any thread at any time. The destructor waits for running operations (TaskQueue).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interop/torch/csrc/ops/any_source.h"
#include "interop/torch/csrc/ops/device_operation.h"
#include "interop/torch/csrc/ops/operation.h"
#include "interop/torch/csrc/ops/reduction.h"
#include "interop/torch/csrc/ops/tensors.h"
#include "interop/torch/csrc/task_queues.h"
#if TUTTI_TORCH_2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

namespace tutti::pytorch {

#if TUTTI_TORCH_2
using BackendBase = c10d::Backend;
#else
using BackendBase = c10d::ProcessGroup;
#endif

class Backend : public BackendBase {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // deferred: the group has no members yet; reconfigure gives it some, and calls before that are refused.
  Backend(const c10::intrusive_ptr<c10d::Store>& store, GroupIdentity identity, bool deferred = false);
  ~Backend() override;

  const std::string getBackendName() const override { return "tutti"; }

  // reductions.cc
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;

  // moves.cc
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;

  // point_to_point.cc
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // backend.cc
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void setSequenceNumberForGroup() override;
  std::uint64_t getSequenceNumberForGroup() override;

  // groups.cc
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
  // Applies to communicators made later, and to waits in this group from now on.
  void setTimeout(std::chrono::milliseconds timeout);
  c10::intrusive_ptr<BackendBase::Options> getBackendOptions() { return options_; }
  // From now on Work::getDuration returns the run time of operations on the host.
  void enableCollectivesTiming() { timed_ = true; }
  bool supportsSplitting() const { return true; }
  c10::intrusive_ptr<BackendBase> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                        const c10::intrusive_ptr<BackendBase::Options>& options);
  bool supportsShrinking() const { return true; }
  c10::intrusive_ptr<BackendBase> shrink(const std::vector<std::int64_t>& excluded, int flags,
                                         const c10::intrusive_ptr<BackendBase::Options>& options);
  // Permanently stops what runs and what is queued in the group, here and, where they wait for this rank, on the others.
  // Only reconfigure makes the group usable again.
  void abort();

#ifdef C10D_BACKEND_HAS_RECONFIGURE  // PyTorch 2.14 and later
  // reconfigure.cc
  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  // Returns when the new members have met. Throws, and leaves the group as it was, if they do not.
  WorkPtr reconfigure(const c10d::ReconfigureOptions& options) override;
  // How the group failed by itself; SUCCESS if it did not, or was aborted.
  c10d::ErrorType getError() override;
#endif

#if TUTTI_TORCH_2
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
#endif

 private:
  void CheckAllGatherInto(const char* call, const at::Tensor& output, const at::Tensor& input) const;
  void CheckReduceScatterFrom(const char* call, const at::Tensor& output, const at::Tensor& input) const;
  WorkPtr IssueCollective(Call call, Operation::Body body);
  WorkPtr IssueOnDevice(DeviceTaskQueue queue, Call call, Operation::Body body, Waits waits = Waits::stream);
  // The scratch of the queue that runs collectives on tensors such as this one.
  const Scratches& ScratchesFor(const at::Tensor& tensor);
  WorkPtr Issue(std::shared_ptr<TaskQueue> queue, Call call, Operation::Body body);
  WorkPtr Issue(c10::intrusive_ptr<OperationWork> work);

  void TakeMembers(std::shared_ptr<TaskQueues> queues);
  // Ends what runs among the members, and frees their communicators. REQUIRES: Python's lock is not held.
  static void Close(TaskQueues& queues, AnySource& any_source);
  // The queues of the present members. Throws InvalidArgument if there are none yet.
  const std::shared_ptr<TaskQueues>& Members() const;

  c10::intrusive_ptr<BackendBase> MakeFrom(const c10::intrusive_ptr<c10d::Store>& store, const char* call,
                                           const std::vector<int>& ranks, std::chrono::milliseconds timeout,
                                           const std::string& name) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<BackendBase::Options> options_;
  const std::shared_ptr<Board> board_;
  const GroupIdentity founding_;  // the group as it was made
  // Of the present members, which reconfigure replaces; null: there are none yet.
  std::shared_ptr<TaskQueues> queues_;
  std::shared_ptr<TaskQueue> collectives_;
  std::shared_ptr<AnySource> any_source_;
  std::shared_ptr<TaskQueues> joining_;  // of the members that reconfigure is waiting for
  std::string generation_;               // the uuid of the last reconfigure; empty: there was none
  std::mutex members_mutex_;             // guards queues_ and joining_ where abort and getError read them
  const Scratches host_scratches_{std::make_shared<Scratch>(at::kCPU), std::make_shared<Scratch>(at::kCPU)};
  std::uint64_t issued_ = 0;     // collectives
  std::uint64_t monitored_ = 0;  // barriers
  bool timed_ = false;
  bool coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
};

}  // namespace tutti::pytorch
