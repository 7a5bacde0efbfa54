// One-sided calls: forwarded to Tutti, with its checks and messages.
#include <span>
#include <vector>

#include "interop/nccl/environment/calls_log.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/streams.h"
#include "tutti/extension.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
                           size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                           cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall(
      {"PutSignal", localbuff, nullptr, count, datatype, comm, stream, 0, peer, subsystem::kColl | subsystem::kP2p});
  return FromTutti(tuttiPutSignal(localbuff, count, ToTutti(datatype), peer, ToTutti(peerWin), peerWinOffset, sigIdx,
                                  ctx, flags, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Signal", nullptr, nullptr, 0, ncclInt8, comm, stream, 0, peer, subsystem::kColl | subsystem::kP2p});
  return FromTutti(tuttiSignal(peer, sigIdx, ctx, flags, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  return Guard(comm, [&] {
    std::vector<tuttiWaitSignalDesc_t> wanted;
    if (signalDescs != nullptr && nDesc > 0) {
      for (const auto& each : std::span(signalDescs, static_cast<std::size_t>(nDesc))) {
        LogCall({"WaitSignal", nullptr, nullptr, static_cast<std::size_t>(each.opCnt), ncclInt8, comm, stream, 0,
                 each.peer, subsystem::kColl | subsystem::kP2p});
        wanted.push_back({each.opCnt, each.peer, each.sigIdx, each.ctx});
      }
    }
    return FromTutti(tuttiWaitSignal(nDesc, signalDescs == nullptr ? nullptr : wanted.data(), ToTutti(comm),
                                     StreamFor(comm, stream)));
  });
}
