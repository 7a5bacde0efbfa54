#include "interop/torch/csrc/ops/any_source.h"

#include <ATen/ops/empty_like.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/ops/transfer.h"

namespace tutti::pytorch {

// Shared with arriving messages, so it may outlive AnySource.
struct AnySource::State {
  using From = std::pair<int, int>;  // sender, tag

  std::mutex mutex;  // guards what follows. TaskQueue locks are taken under it, never the reverse
  std::condition_variable changed;
  bool closed = false;
  std::map<From, std::deque<std::shared_ptr<HeldMessage>>> held;  // posted, not yet claimed
  std::map<From, std::exception_ptr> failed;                      // queues that gave an error instead of a message
};

class HeldMessage : public Task {
 public:
  HeldMessage(std::shared_ptr<AnySource::State> state, const at::Tensor& like, int from)
      : state_(std::move(state)), memory_(at::empty_like(like, like.options().requires_grad(false))), from_(from) {}

  const at::Tensor& memory() const { return memory_; }
  int from() const { return from_; }
  // Both REQUIRE: the state's lock is held, or the caller is a later task of its queue.
  bool has_ended() const { return has_ended_; }
  const std::exception_ptr& error() const { return error_; }

 private:
  void Run(tuttiComm_t comm) override { ReceiveFrom({comm}, memory_); }

  std::exception_ptr Ended(std::exception_ptr error) noexcept override {
    const std::lock_guard lock(state_->mutex);
    has_ended_ = true;
    error_ = error;
    state_->changed.notify_all();
    return error;
  }

  bool Abandonable() const override { return true; }

  const std::shared_ptr<AnySource::State> state_;
  const at::Tensor memory_;
  const int from_;
  bool has_ended_ = false;
  std::exception_ptr error_;
};

AnySource::AnySource(std::shared_ptr<TaskQueues> queues)
    : state_(std::make_shared<State>()), queues_(std::move(queues)) {}

int AnySource::Receive(const at::Tensor& tensor, int tag) {
  const auto& identity = queues_->identity();
  std::unique_lock lock(state_->mutex);
  for (;;) {
    if (state_->closed)
      throw Failure(tuttiRemoteError, "tutti: recv from any source: the process group was destroyed or reconfigured");
    std::exception_ptr last_error;
    bool hope = false;
    for (int from = 0; from < identity.ranks; ++from) {
      if (from == identity.rank) continue;
      const State::From key{from, tag};
      auto& error = state_->failed[key];
      auto& held = state_->held[key];
      if (error == nullptr && held.empty()) {
        held.push_back(std::make_shared<HeldMessage>(state_, tensor, from));
        const auto queue = queues_->PointToPoint(from, identity.rank, tag);
        queue->Issue(held.front());
        queue->Hurry();
      }
      if (!held.empty() && held.front()->has_ended()) {
        const auto message = held.front();
        held.pop_front();
        if (message->error() == nullptr) {
          lock.unlock();
          CopyTo(*message, tensor);
          return from;
        }
        error = message->error();
      }
      if (error != nullptr) last_error = error;
      hope = hope || error == nullptr;
    }
    if (!hope && last_error != nullptr) std::rethrow_exception(last_error);
    state_->changed.wait(lock);
  }
}

std::shared_ptr<HeldMessage> AnySource::Claim(int from, int tag) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->held.find({from, tag});
  if (found == state_->held.end() || found->second.empty()) return nullptr;
  auto message = std::move(found->second.front());
  found->second.pop_front();
  state_->changed.notify_all();  // a waiting receive-from-any posts another
  return message;
}

void AnySource::CopyTo(const HeldMessage& message, const at::Tensor& tensor) {
  if (message.error() != nullptr) std::rethrow_exception(message.error());
  const auto& memory = message.memory();
  if (memory.numel() != tensor.numel() || memory.scalar_type() != tensor.scalar_type()) {
    Refuse("recv: the message of rank ", message.from(), " came as ", memory.numel(), " elements of ",
           memory.scalar_type(), ", which an earlier recv from any source expected, but this tensor has ",
           tensor.numel(), " of ", tensor.scalar_type());
  }
  if (tensor.numel() != 0) std::memcpy(tensor.data_ptr(), memory.data_ptr(), tensor.nbytes());
}

void AnySource::Close() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
}

}  // namespace tutti::pytorch
