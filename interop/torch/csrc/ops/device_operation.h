// One c10d operation on a device's memory. For its queue it is *done* (operation.h) when it has been enqueued on its
// task stream's stream, behind the work already on the caller's current stream. The rest of c10d's interface refers to
// the device: wait() puts the caller's current stream behind the operation without blocking the host, is_completed()
// queries an event, and futures complete at once with the task stream's stream, so that their callbacks' streams are
// behind it.
//
// Which thread enqueues. Once the communicator exists, the caller does, in the call. Before that, the queue's worker
// does: making a communicator waits for the other ranks, which may first need something else of this one, such as its
// receive before its send. So the call raises failures to enqueue, or wait() does where the communicator did not exist
// yet; wait(), is_completed() and the next call raise failures of the running operation.
//
// Memory. Tensors live until they have been enqueued, and are recorded on the task stream's stream, so that PyTorch's
// caching allocator does not reuse their memory before the operation has run.
//
// Thread-safety: as operation.h's.
#pragma once

#include <c10/core/Event.h>

#include <memory>
#include <vector>

#include "interop/torch/csrc/ops/operation.h"
#include "interop/torch/csrc/task_queues.h"

namespace tutti::pytorch {

class DeviceOperation : public Operation {
 public:
  // The operation runs after what is now on the current stream of the task stream's device.
  DeviceOperation(std::shared_ptr<TaskStream> task_stream, Body body, const Call& call);

  // Both REQUIRE: IsDone(), and no Error.
  bool HasRun() const { return after_.query(); }
  void PutBefore(const c10::Stream& stream) const { after_.block(stream); }

 private:
  void Run(tuttiComm_t comm) override;
  void Complete(c10::ivalue::Future& future, const std::exception_ptr& error) const override;

  const std::shared_ptr<TaskStream> task_stream_;
  c10::Event before_;
  c10::Event after_;
};

// Whether wait() blocks the host until the operation has run, as a barrier's does.
enum class Waits : bool { stream, host };

class DeviceWork : public OperationWork {
 public:
  DeviceWork(DeviceTaskQueue queue, std::shared_ptr<Siblings> siblings, int rank, Call call, Operation::Body body,
             Waits waits);

  void Issue() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  void synchronize() override;
  // With a timeout the host blocks until the operation has run.
  bool wait(std::chrono::milliseconds timeout) override;

 private:
  DeviceWork(DeviceTaskQueue queue, std::shared_ptr<Siblings> siblings, int rank, Call call,
             std::shared_ptr<DeviceOperation> operation, Waits waits);

  void BlockHost(std::chrono::milliseconds timeout) const;

  const std::shared_ptr<TaskStream> task_stream_;
  const std::shared_ptr<DeviceOperation> operation_;
  const Waits waits_;
};

}  // namespace tutti::pytorch
