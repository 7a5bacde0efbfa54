// Logs calls as NCCL does at NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=COLL or P2P.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>

#include "interop/nccl/environment/debug_log.h"
#include "interop/nccl/nccl.h"

namespace tutti::nccl {

struct LoggedCall {
  const char* function;  // "AllReduce"
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclComm_t comm;
  cudaStream_t stream;
  int op = 0;
  int root = 0;  // or the peer
  std::uint64_t flags = subsystem::kColl;
};

void LogSlowly(const LoggedCall& call) noexcept;

inline void LogCall(const LoggedCall& call) noexcept {
  if (DebugLog::Enabled(Level::info, call.flags)) [[unlikely]]
    LogSlowly(call);
}

}  // namespace tutti::nccl
