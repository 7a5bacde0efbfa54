// The sum of sparse tensors, such as gradients of torch.nn.Embedding(sparse=True): every rank gets everybody's indices
// and values, and adds them.
//
// Thread-safety: as the communicator's.
#pragma once

#include <ATen/core/Tensor.h>
#include <tutti/tutti.h>

namespace tutti::pytorch {

// Refuses what AllReduceSparse cannot take.
void CheckSparse(const char* call, const at::Tensor& tensor);

// `tensor` becomes the sum, which is coalesced. The ranks' tensors are of one shape, or all ranks refuse, naming two
// that differ; each may have elements of its own at places of its own. REQUIRES: CheckSparse.
void AllReduceSparse(tuttiComm_t comm, int ranks, const at::Tensor& tensor);

}  // namespace tutti::pytorch
