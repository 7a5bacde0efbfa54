#include "tutti/parallel/p2p_communication.h"

#include "tutti/parallel/error.h"

namespace tutti::parallel {

void P2PCommunicator::communicate(const P2PTensors& tensors) {
  const int prev = group_.rank() - 1, next = group_.rank() + 1;
  const auto exists = [&](int stage) { return stage >= 0 && stage < group_.size(); };
  if (group_.size() == 1) return;
  const tuttiComm_t comm = group_.comm();
  check(tuttiGroupStart());
  // A group that was started is always ended, so the first thing that was wrong is told after that.
  auto result = tuttiSuccess;
  const auto send = [&](const Tensor* tensor, int peer) {
    if (tensor == nullptr || !exists(peer) || result != tuttiSuccess) return;
    result = tuttiSend(tensor->data, tensor->count(), tensor->dtype, peer, comm, stream_);
  };
  const auto receive = [&](const Tensor* tensor, int peer) {
    if (tensor == nullptr || !exists(peer) || result != tuttiSuccess) return;
    result = tuttiRecv(tensor->data, tensor->count(), tensor->dtype, peer, comm, stream_);
  };
  send(tensors.send_next, next);
  send(tensors.send_prev, prev);
  receive(tensors.recv_prev, prev);
  receive(tensors.recv_next, next);
  const auto ended = tuttiGroupEnd();
  check(result, comm);
  check(ended, comm);
}

}  // namespace tutti::parallel
