// Sends and receives that run together, as one group, so that two ranks that both send do not wait for each other. Names
// are those of torch.distributed.
//
// Thread-safety: one thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

enum class P2P { isend, irecv };

struct TUTTI_API P2POp {
  P2P op = P2P::isend;
  Tensor tensor;
  int peer = 0;  // in the group
};

// `stream`: as in tutti.h. Messages from one rank to another match in the order of both lists.
// Throws Error.
TUTTI_API void batch_isend_irecv(ProcessGroup& group, const std::vector<P2POp>& operations,
                                 tuttiStream_t stream = nullptr);

}  // namespace tutti::parallel
