#include "tutti/parallel/p2p_communication.h"

#include "parallel/mesh/calls_from_user.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {

void batch_isend_irecv(ProcessGroup& group, const std::vector<P2POp>& operations, tuttiStream_t stream) {
  if (operations.empty()) return;
  const CallsFromUser user;
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

}  // namespace tutti::parallel
