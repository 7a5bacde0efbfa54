#include "tutti/parallel/p2p_communication.h"

#include "tutti/parallel/error.h"

namespace tutti::parallel {

void batch_isend_irecv(ProcessGroup& group, const std::vector<P2POp>& operations, tuttiStream_t stream) {
  if (operations.empty()) return;
  const tuttiComm_t comm = group.comm();
  check(tuttiGroupStart());
  // A started group is always ended; the first error is reported after that.
  auto result = tuttiSuccess;
  for (const auto& [op, tensor, peer] : operations) {
    if (result != tuttiSuccess) break;
    result = op == P2P::isend ? tuttiSend(tensor.data, tensor.count(), tensor.dtype, peer, comm, stream)
                              : tuttiRecv(tensor.data, tensor.count(), tensor.dtype, peer, comm, stream);
  }
  const auto ended = tuttiGroupEnd();
  check(result, comm);
  check(ended, comm);
}

void P2PCommunicator::communicate(const P2PTensors& tensors) {
  if (group_.size() == 1) return;
  std::vector<P2POp> operations;
  const auto add = [&](P2P op, const Tensor* tensor, int stage) {
    if (tensor != nullptr && stage >= 0 && stage < group_.size()) operations.push_back({op, *tensor, stage});
  };
  const int prev = group_.rank() - 1, next = group_.rank() + 1;
  add(P2P::isend, tensors.send_next, next);
  add(P2P::isend, tensors.send_prev, prev);
  add(P2P::irecv, tensors.recv_prev, prev);
  add(P2P::irecv, tensors.recv_next, next);
  batch_isend_irecv(group_, operations, stream_);
}

}  // namespace tutti::parallel
