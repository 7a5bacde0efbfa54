// The sum of sparse tensors, such as gradients of torch.nn.Embedding(sparse=True): every rank gathers all ranks'
// indices and values and adds them.
//
// Thread-safety: as the communicator's.
#pragma once

#include <ATen/core/Tensor.h>
#include <tutti/tutti.h>

namespace tutti::pytorch {

// Throws for tensors that AllReduceSparse cannot take.
void CheckSparse(const char* call, const at::Tensor& tensor);

// `tensor` becomes the coalesced sum. If the ranks' shapes differ, all ranks throw and name two that do. Each rank may
// have elements of its own at places of its own. REQUIRES: CheckSparse.
void AllReduceSparse(tuttiComm_t comm, int ranks, const at::Tensor& tensor);

}  // namespace tutti::pytorch
