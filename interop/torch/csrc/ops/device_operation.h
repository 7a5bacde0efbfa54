// One c10d operation on a device's memory. It is *done* for its channel (operation.h) when it has been enqueued on its
// lane's stream, behind what the caller's current stream had been given before. What c10d asks for after that is on the
// device: wait() puts the caller's current stream behind the operation and does not block the host, is_completed() asks
// an event, and futures are completed at once, with the lane's stream, behind which their callbacks' streams then are.
//
// Who enqueues. As soon as there is a communicator, the caller, in the call. Until then the channel's worker: to make
// one waits for the other ranks, which may need something else of this one first - its receive before its send. So
// failures to enqueue are raised by the call, or by wait() where the communicator was yet to be made; failures of what
// runs by wait(), is_completed() and the next call.
//
// Memory. Tensors live until they have been enqueued, and are recorded on the lane's stream, so that PyTorch's caching
// allocator gives their memory to nobody before the operation has run.
//
// Thread-safety: as operation.h's.
#pragma once

#include <c10/core/Event.h>

#include <memory>
#include <vector>

#include "interop/torch/csrc/channels.h"
#include "interop/torch/csrc/ops/operation.h"

namespace tutti::pytorch {

class DeviceOperation : public Operation {
 public:
  // It comes after what the current stream of the lane's device has been given by now.
  DeviceOperation(std::shared_ptr<Lane> lane, Body body, const Call& call);

  // REQUIRES, of both: IsDone(), and no Error.
  bool HasRun() const { return after_.query(); }
  void PutBefore(const c10::Stream& stream) const { after_.block(stream); }

 private:
  void Run(tuttiComm_t comm) override;
  void Complete(c10::ivalue::Future& future, const std::exception_ptr& error) const override;

  const std::shared_ptr<Lane> lane_;
  c10::Event before_;
  c10::Event after_;
};

// Whether wait() blocks the host until the operation has run, as a barrier's does.
enum class Waits : bool { stream, host };

class DeviceWork : public OperationWork {
 public:
  DeviceWork(DeviceChannel channel, std::shared_ptr<Siblings> siblings, int rank, Call call, Operation::Body body,
             Waits waits);

  void Issue() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  void synchronize() override;
  // With a timeout the host blocks until the operation has run.
  bool wait(std::chrono::milliseconds timeout) override;

 private:
  DeviceWork(DeviceChannel channel, std::shared_ptr<Siblings> siblings, int rank, Call call,
             std::shared_ptr<DeviceOperation> operation, Waits waits);

  void BlockHost(std::chrono::milliseconds timeout) const;

  const std::shared_ptr<Lane> lane_;
  const std::shared_ptr<DeviceOperation> operation_;
  const Waits waits_;
};

}  // namespace tutti::pytorch
