#include "interop/torch/csrc/ops/device_operation.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace tutti::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

// How often the host checks whether an operation has run: soon at first, since many are short.
constexpr auto kFirstPause = std::chrono::microseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(1);

c10::Stream CurrentStream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

void Record(const Tensors& tensors, const c10::Stream& stream) {
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  for (const auto& tensor : tensors) guard.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

}  // namespace

DeviceOperation::DeviceOperation(std::shared_ptr<TaskStream> task_stream, Body body, const Call& call)
    : Operation(std::move(body), call.results, call.abandonable, {task_stream->device()}),
      task_stream_(std::move(task_stream)),
      before_(task_stream_->device().type()),
      after_(task_stream_->device().type()) {
  before_.record(CurrentStream(task_stream_->device()));
  Record(call.inputs, task_stream_->stream());
  Record(call.results, task_stream_->stream());
  // Made now, so that the future completes when this is enqueued: then nothing later is on the task stream's stream.
  static_cast<void>(Future());
}

void DeviceOperation::Run(tuttiComm_t comm) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard guard(task_stream_->stream());
  before_.block(task_stream_->stream());
  RunBody({comm, task_stream_->native_stream()});
  after_.record(task_stream_->stream());
}

void DeviceOperation::Complete(c10::ivalue::Future& future, const std::exception_ptr& error) const {
  try {
    const c10::StreamGuard guard(task_stream_->stream());
    Operation::Complete(future, error);
  } catch (const std::exception&) {
    // The device can no longer even be queried.
    if (!future.completed()) future.setError(std::current_exception());
  }
}

DeviceWork::DeviceWork(DeviceTaskQueue queue, std::shared_ptr<Siblings> siblings, int rank, Call call,
                       Operation::Body body, Waits waits)
    : DeviceWork(queue, std::move(siblings), rank, call,
                 std::make_shared<DeviceOperation>(queue.task_stream, std::move(body), call), waits) {}

DeviceWork::DeviceWork(DeviceTaskQueue queue, std::shared_ptr<Siblings> siblings, int rank, Call call,
                       std::shared_ptr<DeviceOperation> operation, Waits waits)
    : OperationWork(std::move(queue.queue), std::move(siblings), rank, std::move(call), operation),
      task_stream_(std::move(queue.task_stream)),
      operation_(std::move(operation)),
      waits_(waits) {}

void DeviceWork::Issue() {
  OperationWork::Issue();
  if (!task_stream_->IsOpen()) return queue().Hurry();
  queue().Wait(*operation_);
  if (operation_->Error() != nullptr) std::rethrow_exception(operation_->Error());
}

bool DeviceWork::isCompleted() {
  return OperationWork::isCompleted() &&
         (operation_->Error() != nullptr || operation_->HasRun() || task_stream_->Failure() != nullptr);
}

bool DeviceWork::isSuccess() const { return operation_->IsDone() && exception() == nullptr && operation_->HasRun(); }

std::exception_ptr DeviceWork::exception() const {
  const auto error = OperationWork::exception();
  return error != nullptr ? error : ForPython(task_stream_->Failure());
}

void DeviceWork::synchronize() { operation_->PutBefore(CurrentStream(task_stream_->device())); }

bool DeviceWork::wait(std::chrono::milliseconds timeout) {
  OperationWork::wait(timeout);
  if (const auto failure = exception()) std::rethrow_exception(failure);
  synchronize();
  if (waits_ == Waits::host || timeout.count() > 0) BlockHost(timeout);
  return true;
}

void DeviceWork::BlockHost(std::chrono::milliseconds timeout) const {
  const auto until = Clock::now() + timeout;
  auto pause = std::chrono::duration_cast<Clock::duration>(kFirstPause);
  while (!operation_->HasRun()) {
    if (const auto failure = exception()) std::rethrow_exception(failure);
    if (timeout.count() > 0 && Clock::now() >= until) ThrowTimedOut(timeout);
    std::this_thread::sleep_for(pause);
    pause = std::min<Clock::duration>(2 * pause, kLongestPause);
  }
  // A failure that stopped the operation early also completed the event.
  if (const auto failure = exception()) std::rethrow_exception(failure);
}

}  // namespace tutti::pytorch
