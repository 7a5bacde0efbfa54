// Backend's sends and receives.
#include <atomic>
#include <memory>
#include <utility>

#include "interop/torch/csrc/backend.h"
#include "interop/torch/csrc/ops/transfer.h"

namespace tutti::pytorch {
namespace {

void CheckPartner(const char* call, const char* what, int partner, int rank, int ranks) {
  CheckRank(call, what, partner, ranks);
  if (partner == rank) Refuse(call, ": ", what, " is rank ", partner, ", and so is the caller; copy the tensor");
}

// A receive from any rank, which can report its sender.
class AnySourceWork : public OperationWork {
 public:
  AnySourceWork(std::shared_ptr<TaskQueue> queue, std::shared_ptr<Siblings> siblings, int rank, Call call,
                Operation::Body body, std::shared_ptr<const std::atomic<int>> source)
      : OperationWork(std::move(queue), std::move(siblings), rank, std::move(call), std::move(body)),
        source_(std::move(source)) {}

  // -1 until the receive is completed.
  int sourceRank() const override { return source_->load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<const std::atomic<int>> source_;
};

}  // namespace

Backend::WorkPtr Backend::send(Tensors& tensors, int to, int tag) {
  constexpr auto kCall = "send";
  const auto tensor = CheckSingle(kCall, "tensor", tensors);
  CheckPartner(kCall, "dst", to, rank_, size_);
  Call call{c10d::OpType::SEND, "tutti:send", {tensor}, {tensor}};
  auto body = [tensor](const On& on) { SendTo(on, tensor); };
  if (!tensor.device().is_cpu()) {
    return IssueOnDevice(Members()->PointToPoint(tensor.device(), rank_, to, tag), std::move(call), std::move(body));
  }
  return Issue(Members()->PointToPoint(rank_, to, tag), std::move(call), std::move(body));
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int from, int tag) {
  constexpr auto kCall = "recv";
  const auto tensor = CheckSingle(kCall, "tensor", tensors);
  CheckPartner(kCall, "src", from, rank_, size_);
  const Call call{c10d::OpType::RECV, "tutti:recv", {tensor}, {tensor}};
  auto body = [tensor](const On& on) { ReceiveFrom(on, tensor); };
  if (!tensor.device().is_cpu()) {
    return IssueOnDevice(Members()->PointToPoint(tensor.device(), from, rank_, tag), call, std::move(body));
  }
  const auto queue = Members()->PointToPoint(from, rank_, tag);
  if (const auto held = any_source_->Claim(from, tag)) {
    return Issue(queue, call, [tensor, held](const On&) { AnySource::CopyTo(*held, tensor); });
  }
  return Issue(queue, call, std::move(body));
}

Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  constexpr auto kCall = "recv";
  const auto tensor = CheckSingle(kCall, "tensor", tensors);
  CheckOnHost(kCall, tensor, "a receive from any source");
  if (size_ <= 1) Refuse(kCall, ": there is no rank to receive from: the group has 1 rank");
  const auto source = std::make_shared<std::atomic<int>>(-1);
  return Issue(c10::make_intrusive<AnySourceWork>(
      Members()->WithoutCommunicator(tag), queues_, rank_,
      Call{c10d::OpType::RECVANYSOURCE, "tutti:recvAnySource", {tensor}, {tensor}, true},
      [any_source = any_source_, tensor, tag, source](const On&) {
        source->store(any_source->Receive(tensor, tag), std::memory_order_release);
      },
      source));
}

}  // namespace tutti::pytorch
