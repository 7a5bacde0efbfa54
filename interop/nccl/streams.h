// The stream of a call.
//
// Thread-safety: any thread.
#pragma once

#include "interop/nccl/convert.h"

namespace tutti::nccl {

// A communicator without a device works on host memory in the caller's thread and ignores the stream. Queried on each
// call, since that is cheaper than looking up a cached answer.
inline tuttiStream_t StreamFor(ncclComm_t comm, cudaStream_t stream) {
  int device = TUTTI_DEVICE_NONE;
  if (stream == nullptr || tuttiCommCuDevice(ToTutti(comm), &device) != tuttiSuccess) return nullptr;
  return device == TUTTI_DEVICE_NONE ? nullptr : stream;
}

}  // namespace tutti::nccl
