#include "interop/torch/csrc/ops/operation.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {
namespace {

#if TUTTI_TORCH_2
using BackendError = c10::DistBackendError;  // torch.distributed.DistBackendError
#else
using BackendError = c10::Error;  // RuntimeError
#endif

BackendError MakeBackendError(const std::string& message) {
  return BackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, message);
}

// The line of Python that issues an operation in this thread. PyTorch calls backends without Python's lock; its own
// recorder of collectives takes it likewise. Null in a thread that runs no Python: taking the lock there would first make
// it one of Python's.
python_site::SitePointer SiteOfCaller() {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return nullptr;
  const auto locked = PyGILState_Ensure();
  auto site = python_site::CurrentPythonSite();
  PyGILState_Release(locked);
  return site;
}

c10::intrusive_ptr<c10::ivalue::Future> NewFuture(const std::vector<c10::Device>& devices) {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
}

}  // namespace

std::exception_ptr ForPython(std::exception_ptr error) noexcept {
  if (error == nullptr) return error;
  try {
    std::rethrow_exception(error);
  } catch (const Failure& failure) {
    return std::make_exception_ptr(MakeBackendError(failure.what()));
  } catch (...) {
    return std::current_exception();
  }
}

Operation::Operation(Body body, std::vector<at::Tensor> results, bool abandonable, std::vector<c10::Device> devices)
    : body_(std::move(body)),
      site_(SiteOfCaller()),
      results_(std::move(results)),
      abandonable_(abandonable),
      devices_(std::move(devices)) {}

void Operation::RunBody(const On& on) {
  const CallsFrom named(python_site::AsCallSite(site_.get()));
  if (!timed_) return body_(on);
  const auto begin = std::chrono::steady_clock::now();
  body_(on);
  duration_ = std::chrono::steady_clock::now() - begin;
}

std::exception_ptr Operation::Ended(std::exception_ptr error) noexcept {
  const auto how = ForPython(std::move(error));
  body_ = nullptr;  // releases the inputs too
  if (on_end_) on_end_();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  how_ = how;
  to_complete_ = future_;
  return how;
}

void Operation::RunCallbacks() noexcept {
  Complete(*to_complete_, how_);  // how_ is no longer written
  to_complete_.reset();
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::Future() {
  std::unique_lock lock(mutex_);
  if (!future_) {
    future_ = NewFuture(devices_);
    if (ended_) {
      lock.unlock();  // it has no callbacks yet, and an ended operation has no other completer
      Complete(*future_, how_);
    }
  }
  return future_;
}

void Operation::Complete(c10::ivalue::Future& future, const std::exception_ptr& error) const {
  if (error != nullptr) {
    future.setError(error);
  } else {
    future.markCompleted(c10::IValue(results_));
  }
}

OperationWork::OperationWork(std::shared_ptr<TaskQueue> queue, std::shared_ptr<Siblings> siblings, int rank, Call call,
                             Operation::Body body)
    : OperationWork(std::move(queue), std::move(siblings), rank, std::move(call),
                    std::make_shared<Operation>(std::move(body), std::move(call.results), call.abandonable)) {}

OperationWork::OperationWork(std::shared_ptr<TaskQueue> queue, std::shared_ptr<Siblings> siblings, int rank,
                             Call&& call, std::shared_ptr<Operation> operation)
    : Work(rank, call.type, call.title, Optional<std::vector<at::Tensor>>(std::move(call.inputs))),
      queue_(std::move(queue)),
      siblings_(std::move(siblings)),
      operation_(std::move(operation)),
      title_(call.title) {
  // The profiler's callback, set up by Work's constructor.
  if (recordFunctionEndCallback_) operation_->OnEnd(std::exchange(recordFunctionEndCallback_, nullptr));
}

void OperationWork::Issue() {
  try {
    queue_->Issue(operation_);
  } catch (const Failure& failure) {
    throw MakeBackendError(failure.what());
  }
}

bool OperationWork::isCompleted() {
  if (operation_->IsDone()) return true;
  queue_->Hurry();  // a polling caller does not run tasks itself
  return operation_->IsDone();
}

bool OperationWork::isSuccess() const { return operation_->IsDone() && operation_->Error() == nullptr; }

std::exception_ptr OperationWork::exception() const { return operation_->IsDone() ? operation_->Error() : nullptr; }

std::vector<at::Tensor> OperationWork::result() { return operation_->results(); }

void OperationWork::synchronize() {}  // host memory has no streams

bool OperationWork::wait(std::chrono::milliseconds timeout) {
  if (!operation_->IsDone()) {
    siblings_->HurryAllBut(*queue_);
    const auto limit = siblings_->LimitOfWaits();
    if (timeout.count() > 0) {
      if (!queue_->WaitFor(*operation_, timeout)) ThrowTimedOut(timeout);
    } else if (limit.count() <= 0) {
      queue_->Wait(*operation_);
    } else if (!queue_->WaitFor(*operation_, limit)) {
      queue_->Stop(tuttiTimeoutError);
      throw MakeBackendError("tutti: " + std::string(tuttiGetErrorString(tuttiTimeoutError)) + ": " + title_ +
                             " was not done within the group's timeout of " + std::to_string(limit.count()) +
                             " ms, which was set after the group was made. The group can no longer be used");
    }
  }
  if (operation_->Error() != nullptr) std::rethrow_exception(operation_->Error());
  return true;
}

void OperationWork::ThrowTimedOut(std::chrono::milliseconds timeout) const {
  throw MakeBackendError(std::string(title_) + ": wait() returned after its timeout of " +
                         std::to_string(timeout.count()) +
                         " ms; the operation itself goes on, until the group's timeout");
}

void OperationWork::abort() {
  TORCH_CHECK(
      false, title_,
      ": a single operation cannot be aborted, because the other ranks take part in it. Destroy the group instead");
}

c10::intrusive_ptr<c10::ivalue::Future> OperationWork::getFuture() {
  if (!operation_->IsDone()) queue_->Hurry();
  return operation_->Future();
}

float OperationWork::getDuration() const {
  TORCH_CHECK(operation_->IsDone(), title_, ": the operation is not done, so its duration is not known yet");
  return operation_->duration().count();
}

JointWork::JointWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> parts)
    : Work(rank, c10d::OpType::UNKNOWN), parts_(std::move(parts)) {}

bool JointWork::isCompleted() {
  bool all = true;
  for (const auto& part : parts_) all = part->isCompleted() && all;
  return all;
}

bool JointWork::isSuccess() const {
  for (const auto& part : parts_) {
    if (!part->isSuccess()) return false;
  }
  return true;
}

std::exception_ptr JointWork::exception() const {
  for (const auto& part : parts_) {
    if (const auto error = part->exception()) return error;
  }
  return nullptr;
}

std::vector<at::Tensor> JointWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& part : parts_) {
    for (auto& tensor : part->result()) all.push_back(std::move(tensor));
  }
  return all;
}

void JointWork::synchronize() {
  for (const auto& part : parts_) part->synchronize();
}

bool JointWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& part : parts_) part->wait(timeout);
  return true;
}

void JointWork::abort() {
  for (const auto& part : parts_) part->abort();
}

// Completed by the part that ends last, with the error of the first failed part in the list.
c10::intrusive_ptr<c10::ivalue::Future> JointWork::getFuture() {
  auto left = std::make_shared<std::atomic<std::size_t>>(parts_.size());
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> futures;
  std::vector<c10::Device> devices;
  for (const auto& part : parts_) {
    futures.push_back(part->getFuture());
    for (const auto& device : futures.back()->devices()) {
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    }
  }
  auto joint = NewFuture(devices);
  if (futures.empty()) joint->markCompleted(c10::IValue(std::vector<at::Tensor>()));
  for (const auto& future : futures) {
    future->addCallback([joint, left, futures, results = result()](c10::ivalue::Future&) {
      // Acquire and release: the last one sees what all have done.
      if (left->fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      for (const auto& each : futures) {
        if (each->hasError()) return joint->setError(each->exception_ptr());
        each->wait();  // already completed; puts the current streams behind it
      }
      joint->markCompleted(c10::IValue(results));
    });
  }
  return joint;
}

}  // namespace tutti::pytorch
