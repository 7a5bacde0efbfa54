// One message on a queue of two ranks; the sender is rank 0.
//
// Thread-safety: as the communicator's.
#pragma once

#include "interop/torch/csrc/communicator.h"
#include "interop/torch/csrc/ops/tensors.h"

namespace tutti::pytorch {

// Both REQUIRE: CheckTensor. They return when the tensor may be reused; with a stream, when the transfer is enqueued.
// Throw Failure.
void SendTo(const On& on, const at::Tensor& tensor);
void ReceiveFrom(const On& on, const at::Tensor& tensor);

}  // namespace tutti::pytorch
