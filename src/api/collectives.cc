// The C boundary of the collectives, send/recv and user-made operators.
#include "base/extension.h"
#include "base/numbers/datatype.h"
#include "src/api/arguments.h"
#include "src/api/site.h"
#include "src/calls/group.h"
#include "src/calls/repeat.h"

namespace tutti::api {
namespace {

[[gnu::noinline]] tuttiResult_t SubmitObserved(tuttiComm& handle, plan::Operation operation, tuttiStream_t stream,
                                               void* observer) {
  const auto observed = std::make_shared<const plan::ObservedCall>(observer, operation, stream);
  operation.observed = observed;
  const auto result = calls::Submit(handle, operation, stream);
  observed->Returns();
  return result;
}

// Checks with `check(caller)` and submits. Every call that moves data enters here, unless it repeats an earlier one.
// `site`: CurrentSite().
template <typename Check>
tuttiResult_t Call(tuttiComm* handle, tuttiStream_t stream, std::uint64_t site, Check&& check) noexcept {
  return calls::GuardCall(handle, [&] {
    const calls::Operating operating(handle);
    const Caller caller{handle->rank.load(std::memory_order_relaxed), handle->nranks.load(std::memory_order_relaxed)};
    if (const auto* const made = handle->communicator.get(); made != nullptr && made->observer() != nullptr)
        [[unlikely]]
      return SubmitObserved(*handle, WithSite(check(caller), site), stream, made->observer());
    return calls::Submit(*handle, WithSite(check(caller), site), stream);
  });
}

// The communicator's operator of that number, if there is one.
std::optional<calls::UserOp> UserOpOf(tuttiComm* handle, tuttiRedOp_t op) {
  if (op < tuttiNumOps) return std::nullopt;
  const std::lock_guard lock(handle->mutex);
  const auto* const found = handle->user_ops.Find(op);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// A user-made operator becomes a sum that scales. Throws tuttiInvalidArgument.
plan::Operation WithUserOp(plan::Operation operation, const calls::UserOp& user, tuttiDataType_t type) {
  if (user.type != type) {
    Throw(tuttiInvalidArgument, "op was made for {}, but datatype is {}", NameOf(user.type), NameOf(type));
  }
  operation.scaled = true;
  operation.scalar = user.scalar;
  operation.scalar_source = user.source;
  return operation;
}

// `check(caller, op)` for collectives that reduce.
template <typename Check>
tuttiResult_t Reducing(tuttiComm* handle, tuttiStream_t stream, std::uint64_t site, tuttiRedOp_t op,
                       tuttiDataType_t type, Check&& check) {
  return Call(handle, stream, site, [&](const Caller& caller) {
    const auto user = UserOpOf(handle, op);
    return user ? WithUserOp(check(caller, tuttiSum), *user, type) : check(caller, op);
  });
}

// Not inlined, because a repetition shall not prepare it.
[[gnu::noinline]] tuttiResult_t PlainAnew(tuttiComm* handle, tuttiStream_t stream, const plan::PlainCall& call) {
  return Reducing(handle, stream, call.site, call.op, call.type, [&](const Caller& caller, tuttiRedOp_t op) {
    plan::PlainCall plain = call;
    plain.op = op;
    return CheckedCollective(caller, plain);
  });
}

// A repetition is not checked again.
tuttiResult_t Plain(tuttiComm* handle, tuttiStream_t stream, const plan::PlainCall& call) {
  if (const auto result = calls::SubmitAgain(handle, call, stream)) return *result;
  return PlainAnew(handle, stream, call);
}

// Runs what closes a group of this thread, between the extension's hooks.
template <typename Body>
tuttiResult_t EndingAGroup(Body&& body) {
  struct Ended {
    ~Ended() {
      if (auto* const ended = TheExtension().groupEnded) ended();
    }
  };
  if (auto* const ends = TheExtension().groupEnds) ends();
  const Ended ended;
  return body();
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file is the C boundary of these namespaces
using namespace tutti::api;  // NOLINT

tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                             tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::all_reduce, sendbuff, recvbuff, count, datatype, op, 0, CallersSite()});
}

tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, tuttiRedOp_t op,
                          int root, tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::reduce, sendbuff, recvbuff, count, datatype, op, root, CallersSite()});
}

tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tuttiDataType_t datatype,
                                 tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, op, 0, CallersSite()});
}

tuttiResult_t tuttiReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                  tuttiDataType_t datatype, tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return Reducing(comm, stream, CallersSite(), op, datatype, [&](const Caller& caller, tuttiRedOp_t plain) {
    return CheckedReduceScatterV(caller, {sendbuff, recvbuff, 0, datatype}, recvcounts, plain);
  });
}

tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, int root,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::broadcast, sendbuff, recvbuff, count, datatype, tuttiSum, root, CallersSite()});
}

tuttiResult_t tuttiBcast(void* buff, size_t count, tuttiDataType_t datatype, int root, tuttiComm_t comm,
                         tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::broadcast, buff, buff, count, datatype, tuttiSum, root, CallersSite()});
}

tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tuttiDataType_t datatype,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::all_gather, sendbuff, recvbuff, sendcount, datatype, tuttiSum, 0, CallersSite()});
}

tuttiResult_t tuttiAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                              const size_t* recvdispls, tuttiDataType_t datatype, tuttiComm_t comm,
                              tuttiStream_t stream) {
  return Call(comm, stream, CallersSite(), [&](const Caller& caller) {
    return CheckedAllGatherV(caller, {sendbuff, recvbuff, sendcount, datatype}, recvcounts, recvdispls);
  });
}

tuttiResult_t tuttiAlltoAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                            tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::all_to_all, sendbuff, recvbuff, count, datatype, tuttiSum, 0, CallersSite()});
}

tuttiResult_t tuttiAlltoAllV(const void* sendbuff, const size_t* sendcounts, const size_t* senddispls, void* recvbuff,
                             const size_t* recvcounts, const size_t* recvdispls, tuttiDataType_t datatype,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return Call(comm, stream, CallersSite(), [&](const Caller& caller) {
    return CheckedAllToAllV(caller, {sendbuff, recvbuff, 0, datatype}, sendcounts, senddispls, recvcounts, recvdispls);
  });
}

tuttiResult_t tuttiAllGatherTensor(const void* sendbuff, const tuttiTensorLayout_t* sendlayout, void* recvbuff,
                                   const tuttiTensorLayout_t* recvlayout, int dim, tuttiDataType_t datatype,
                                   tuttiComm_t comm, tuttiStream_t stream) {
  return Call(comm, stream, CallersSite(), [&](const Caller& caller) {
    return CheckedAllGatherTensor(caller, {sendbuff, sendlayout, recvbuff, recvlayout, datatype}, dim);
  });
}

tuttiResult_t tuttiReduceScatterTensor(const void* sendbuff, const tuttiTensorLayout_t* sendlayout, void* recvbuff,
                                       const tuttiTensorLayout_t* recvlayout, int dim, tuttiDataType_t datatype,
                                       tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return Reducing(comm, stream, CallersSite(), op, datatype, [&](const Caller& caller, tuttiRedOp_t plain) {
    return CheckedReduceScatterTensor(caller, {sendbuff, sendlayout, recvbuff, recvlayout, datatype}, dim, plain);
  });
}

tuttiResult_t tuttiAlltoAllTensor(const void* sendbuff, const tuttiTensorLayout_t* sendlayout, int senddim,
                                  void* recvbuff, const tuttiTensorLayout_t* recvlayout, int recvdim,
                                  tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream) {
  return Call(comm, stream, CallersSite(), [&](const Caller& caller) {
    return CheckedAllToAllTensor(caller, {sendbuff, sendlayout, recvbuff, recvlayout, datatype}, senddim, recvdim);
  });
}

tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, int root,
                          tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::gather, sendbuff, recvbuff, count, datatype, tuttiSum, root, CallersSite()});
}

tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, int root,
                           tuttiComm_t comm, tuttiStream_t stream) {
  return Plain(comm, stream,
               {schedule::Collective::scatter, sendbuff, recvbuff, count, datatype, tuttiSum, root, CallersSite()});
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream) {
  return Call(comm, stream, CallersSite(), [](const Caller&) { return plan::Barrier(); });
}

tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t datatype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return Call(comm, stream, CallersSite(), [&](const Caller& caller) {
    return CheckedSend(caller, {sendbuff, nullptr, count, datatype}, peer);
  });
}

tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t datatype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return Call(comm, stream, CallersSite(), [&](const Caller& caller) {
    return CheckedReceive(caller, {nullptr, recvbuff, count, datatype}, peer);
  });
}

tuttiResult_t tuttiGroupStart(void) {
  if (auto* const starts = TheExtension().groupStarts) starts();
  return calls::Guard(nullptr, [] { calls::StartGroup(); });
}

tuttiResult_t tuttiGroupEnd(void) {
  return EndingAGroup([] { return calls::GuardResult(nullptr, [] { return calls::EndGroup(); }); });
}

tuttiResult_t tuttiGroupSimulateEnd(tuttiSimInfo_t* simInfo) {
  return calls::Guard(nullptr, [&] {
    calls::CheckOutput("simInfo", simInfo);
    if (simInfo->magic != TUTTI_SIM_INFO_MAGIC || simInfo->size < sizeof *simInfo) {
      Throw(tuttiInvalidArgument, "simInfo was not initialised with TUTTI_SIM_INFO_INITIALIZER");
    }
    EndingAGroup([&] {
      simInfo->estimatedTime = static_cast<float>(calls::SimulateGroup());
      return tuttiSuccess;
    });
  });
}

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t datatype,
                                        tuttiScalarResidence_t residence, tuttiComm_t comm) {
  return calls::Guard(comm, [&] {
    const calls::Operating operating(comm);
    if (op == nullptr) Throw(tuttiInvalidArgument, "op is NULL");
    if (scalar == nullptr) Throw(tuttiInvalidArgument, "scalar is NULL");
    if (!IsDataType(datatype)) Throw(tuttiInvalidArgument, "datatype {} does not exist", static_cast<int>(datatype));
    if (residence != tuttiScalarDevice && residence != tuttiScalarHostImmediate) {
      Throw(tuttiInvalidArgument, "residence {} is neither tuttiScalarDevice nor tuttiScalarHostImmediate",
            static_cast<int>(residence));
    }
    const bool later = residence == tuttiScalarDevice;
    const std::lock_guard lock(comm->mutex);
    *op = comm->user_ops.Add({datatype,
                              later ? host_kernels::Scalar{} : host_kernels::Scalar::From(scalar, SizeOf(datatype)),
                              later ? scalar : nullptr});
  });
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    const std::lock_guard lock(comm->mutex);
    if (!comm->user_ops.Remove(op)) {
      Throw(tuttiInvalidArgument, "op {} is not a live operator made on this comm", static_cast<int>(op));
    }
  });
}
