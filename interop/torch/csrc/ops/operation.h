// One c10d operation: the task that a channel runs, and the Work that its caller gets.
//
// An operation is done when its results are in the tensors. It fails with one exception, which wait(), the future and
// exception() all give.
//
// Thread-safety: as c10d asks of Work: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "interop/torch/csrc/channel.h"
#include "interop/torch/csrc/version.h"

namespace tutti::pytorch {

// The tensors are those that future and result() give; the body keeps alive what else it needs.
class Operation : public Task {
 public:
  using Body = std::function<void(const On&)>;

  // abandonable: no other rank misses it if it is not done (Channel::Close). devices: those of the results, if they are
  // on any.
  Operation(Body body, std::vector<at::Tensor> results, bool abandonable, std::vector<c10::Device> devices = {});

  // Completed when the operation is, its callbacks running in the thread that completes it.
  c10::intrusive_ptr<c10::ivalue::Future> Future();
  const std::vector<at::Tensor>& results() const { return results_; }
  // Time REQUIRES: not yet issued. duration REQUIRES: IsDone.
  void Time() { timed_ = true; }
  std::chrono::duration<float, std::milli> duration() const { return duration_; }
  // `callback` is called once it has ended. REQUIRES: not yet issued.
  void OnEnd(std::function<void()> callback) { on_end_ = std::move(callback); }

 protected:
  void RunBody(const On& on);
  virtual void Complete(c10::ivalue::Future& future, const std::exception_ptr& error) const;

 private:
  void Run(tuttiComm_t comm) override { RunBody({comm}); }
  std::exception_ptr Ended(std::exception_ptr error) noexcept override;
  // The future's callbacks.
  bool HasCallbacks() const override { return to_complete_.defined(); }
  void RunCallbacks() noexcept override;
  bool Abandonable() const override { return abandonable_; }

  Body body_;
  const std::vector<at::Tensor> results_;
  const bool abandonable_;
  const std::vector<c10::Device> devices_;
  std::function<void()> on_end_;
  bool timed_ = false;
  std::chrono::duration<float, std::milli> duration_{0};
  c10::intrusive_ptr<c10::ivalue::Future> to_complete_;  // set when it ended: the future, if there was one

  std::mutex mutex_;  // guards what follows
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool ended_ = false;
  std::exception_ptr how_;
};

// What is issued: for c10d, the profiler and people.
struct Call {
  c10d::OpType type;
  const char* title;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> results;
  bool abandonable = false;
};

class OperationWork : public c10d::Work {
 public:
  OperationWork(std::shared_ptr<Channel> channel, std::shared_ptr<Siblings> siblings, int rank, Call call,
                Operation::Body body);

  // Apart from the constructor, because it may throw.
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
  // How long the operation ran, in milliseconds. PyTorch 1.13 does not ask for it.
  float getDuration() const;

 protected:
  OperationWork(std::shared_ptr<Channel> channel, std::shared_ptr<Siblings> siblings, int rank, Call&& call,
                std::shared_ptr<Operation> operation);

  [[noreturn]] void ThrowTimedOut(std::chrono::milliseconds timeout) const;
  Channel& channel() const { return *channel_; }

 private:
  const std::shared_ptr<Channel> channel_;
  const std::shared_ptr<Siblings> siblings_;
  const std::shared_ptr<Operation> operation_;
  const char* const title_;
};

// Failures of the library as Python's exception for backends' errors; anything else, and null, as it is.
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
