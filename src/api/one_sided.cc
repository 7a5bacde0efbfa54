// The C boundary of one-sided calls.
#include "base/numbers/datatype.h"
#include "src/api/argument_checks.h"
#include "src/api/site.h"
#include "src/calls/group.h"

namespace tutti::api {
namespace {

// One-sided operations reach memory that this rank has mapped, so they end at the host.
void CheckPeer(const comm::Communicator& communicator, int peer) {
  if (peer < 0 || peer >= communicator.size()) {
    Throw(tuttiInvalidArgument, "peer is {}; comm has ranks 0 to {}", peer, communicator.size() - 1);
  }
  const auto& host_of = communicator.host().hosts().host_of;
  if (host_of[static_cast<std::size_t>(peer)] == host_of[static_cast<std::size_t>(communicator.rank())]) return;
  Throw(tuttiInvalidUsage,
        "peer {} is on another host; one-sided calls reach ranks of this host only. Use tuttiSend and tuttiRecv", peer);
}

std::uint8_t CheckedSignal(int index, int context) {
  if (index < 0 || index >= TUTTI_SIGNALS) {
    Throw(tuttiInvalidArgument, "sigIdx is {}; signals are 0 to {}", index, TUTTI_SIGNALS - 1);
  }
  if (context < 0 || context >= TUTTI_SIGNAL_CONTEXTS) {
    Throw(tuttiInvalidArgument, "ctx is {}; contexts are 0 to {}", context, TUTTI_SIGNAL_CONTEXTS - 1);
  }
  return ring::SignalNumber(context, index);
}

void CheckFlags(unsigned flags) {
  if (flags != 0) Throw(tuttiInvalidArgument, "flags is {:#x}; there are none yet", flags);
}

plan::Operation Signalling(schedule::Collective kind, const comm::Communicator& communicator, int peer, int index,
                           int context) {
  CheckPeer(communicator, peer);
  plan::Operation operation;
  operation.collective = kind;
  operation.root = peer;
  operation.signal = CheckedSignal(index, context);
  return operation;
}

// The `bytes` at `offset` of peer's part of the window.
std::byte* CheckedPlace(const comm::Communicator& communicator, const tuttiWindow* window, int peer, std::size_t offset,
                        std::size_t bytes) {
  calls::CheckOutput("peerWin", window);
  const auto part = communicator.PartOf(window, peer);
  if (offset > part.size() || bytes > part.size() - offset) {
    Throw(tuttiInvalidArgument, "{} bytes at peerWinOffset {} do not fit rank {}'s part of the window, which has {}",
          bytes, offset, peer, part.size());
  }
  if (communicator.device() != nullptr && !communicator.device()->windows().PartOf(window, peer)) {
    Throw(tuttiInvalidArgument,
          "peerWin is host memory, but one-sided calls of a communicator with a device put into GPU memory");
  }
  return part.data() + offset;
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file is the C boundary of these namespaces
using namespace tutti::api;  // NOLINT

tuttiResult_t tuttiPutSignal(const void* localbuff, size_t count, tuttiDataType_t datatype, int peer,
                             tuttiWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
                             tuttiComm_t comm, tuttiStream_t stream) {
  const auto site = CallersSite();
  return calls::GuardCall(comm, [&] {
    const calls::Operating operating(comm);
    const auto& communicator = calls::Usable(*comm);
    CheckType(datatype);
    CheckFlags(flags);
    const std::size_t bytes = CheckedBytes("count", count, 1, datatype);
    CheckPointer("localbuff", localbuff, bytes, datatype);
    auto operation = Signalling(schedule::Collective::put, communicator, peer, sigIdx, ctx);
    operation.input = localbuff;
    operation.output = CheckedPlace(communicator, peerWin, peer, peerWinOffset, bytes);
    operation.count = count;
    operation.type = datatype;
    return calls::Submit(*comm, WithSite(operation, site), stream);
  });
}

tuttiResult_t tuttiSignal(int peer, int sigIdx, int ctx, unsigned int flags, tuttiComm_t comm, tuttiStream_t stream) {
  const auto site = CallersSite();
  return calls::GuardCall(comm, [&] {
    const calls::Operating operating(comm);
    CheckFlags(flags);
    const auto operation = Signalling(schedule::Collective::signal, calls::Usable(*comm), peer, sigIdx, ctx);
    return calls::Submit(*comm, WithSite(operation, site), stream);
  });
}

tuttiResult_t tuttiWaitSignal(int nDesc, tuttiWaitSignalDesc_t* signalDescs, tuttiComm_t comm, tuttiStream_t stream) {
  const auto site = CallersSite();
  return calls::GuardCall(comm, [&] {
    const calls::Operating operating(comm);
    const auto& communicator = calls::Usable(*comm);
    if (nDesc < 1) Throw(tuttiInvalidArgument, "nDesc is {}; a wait needs at least one description", nDesc);
    calls::CheckOutput("signalDescs", signalDescs);
    std::vector<plan::Operation> waits;
    for (const auto& asked : std::span(signalDescs, static_cast<std::size_t>(nDesc))) {
      if (asked.opCnt < 1) Throw(tuttiInvalidArgument, "opCnt is {}; a wait is for at least one signal", asked.opCnt);
      auto operation = Signalling(schedule::Collective::wait_signal, communicator, asked.peer, asked.sigIdx, asked.ctx);
      operation.count = static_cast<std::size_t>(asked.opCnt);
      waits.push_back(WithSite(operation, site));
    }
    return calls::SubmitTogether(*comm, waits, stream);
  });
}
