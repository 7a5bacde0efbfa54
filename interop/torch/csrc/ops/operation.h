// One c10d operation: the task that a queue runs, and the Work that the caller gets.
//
// An operation is done when its results are in the tensors. It fails with one exception, which wait(), the future and
// exception() all report.
//
// Thread-safety: as c10d requires of Work: all functions may be called from any thread.
#pragma once

#include <tutti/python_site.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "interop/torch/csrc/task_queue.h"
#include "interop/torch/csrc/version.h"

namespace tutti::pytorch {

// `results` are the tensors that future and result() give; the body keeps alive whatever else it needs.
class Operation : public Task {
 public:
  using Body = std::function<void(const On&)>;

  // abandonable: no other rank needs it to run (TaskQueue::Close). devices: those of the results, if any.
  Operation(Body body, std::vector<at::Tensor> results, bool abandonable, std::vector<c10::Device> devices = {});

  // Completes with the operation; callbacks run in the thread that completes it.
  c10::intrusive_ptr<c10::ivalue::Future> Future();
  const std::vector<at::Tensor>& results() const { return results_; }
  // Time REQUIRES: not yet issued. duration REQUIRES: IsDone.
  void Time() { timed_ = true; }
  std::chrono::duration<float, std::milli> duration() const { return duration_; }
  // `callback` is called when the operation has ended. REQUIRES: not yet issued.
  void OnEnd(std::function<void()> callback) { on_end_ = std::move(callback); }

 protected:
  void RunBody(const On& on);
  virtual void Complete(c10::ivalue::Future& future, const std::exception_ptr& error) const;

 private:
  void Run(tuttiComm_t comm) override { RunBody({comm}); }
  std::exception_ptr Ended(std::exception_ptr error) noexcept override;
  // Complete the future and run its callbacks.
  bool HasCallbacks() const override { return to_complete_.defined(); }
  void RunCallbacks() noexcept override;
  bool Abandonable() const override { return abandonable_; }

  Body body_;
  const python_site::SitePointer site_;  // where the program issued it
  const std::vector<at::Tensor> results_;
  const bool abandonable_;
  const std::vector<c10::Device> devices_;
  std::function<void()> on_end_;
  bool timed_ = false;
  std::chrono::duration<float, std::milli> duration_{0};
  c10::intrusive_ptr<c10::ivalue::Future> to_complete_;  // set at the end: the future, if one was requested

  std::mutex mutex_;  // guards what follows
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool ended_ = false;
  std::exception_ptr how_;
};

// Description of an issued call: for c10d, the profiler and messages.
struct Call {
  c10d::OpType type;
  const char* title;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> results;
  bool abandonable = false;
};

class OperationWork : public c10d::Work {
 public:
  OperationWork(std::shared_ptr<TaskQueue> queue, std::shared_ptr<Siblings> siblings, int rank, Call call,
                Operation::Body body);

  // Separate from the constructor, because it may throw.
  virtual void Issue();
  // REQUIRES: not yet issued.
  void Time() { operation_->Time(); }

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  // The operation's run time in milliseconds. PyTorch 1.13 does not use it.
  float getDuration() const;

 protected:
  OperationWork(std::shared_ptr<TaskQueue> queue, std::shared_ptr<Siblings> siblings, int rank, Call&& call,
                std::shared_ptr<Operation> operation);

  [[noreturn]] void ThrowTimedOut(std::chrono::milliseconds timeout) const;
  TaskQueue& queue() const { return *queue_; }

 private:
  const std::shared_ptr<TaskQueue> queue_;
  const std::shared_ptr<Siblings> siblings_;
  const std::shared_ptr<Operation> operation_;
  const char* const title_;
};

// Turns the library's failures into Python's backend exception; other exceptions, and null, stay as they are.
std::exception_ptr ForPython(std::exception_ptr error) noexcept;

// Several operations that the caller treats as one.
class JointWork : public c10d::Work {
 public:
  JointWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> parts);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
};

}  // namespace tutti::pytorch
