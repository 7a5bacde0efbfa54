// Collectives, sends, receives and operators: forwarded to Tutti, with its checks and messages.
#include "interop/nccl/coll_config.h"
#include "interop/nccl/environment/calls_log.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/streams.h"
#include "tutti/extension.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

bool IsOnDevice(ncclComm_t comm) {
  int device = TUTTI_DEVICE_NONE;
  return tuttiCommCuDevice(ToTutti(comm), &device) == tuttiSuccess && device != TUTTI_DEVICE_NONE;
}

// The collective with a configuration of its own.
template <typename Call>
ncclResult_t Configured(const ncclCollConfig_t* config, ncclComm_t comm, cudaStream_t stream, Call&& call) {
  if (config == nullptr) return call();
  return Guard(comm, [&] {
    CheckCollConfig(*config);
    const cudaEvent_t event = LaunchEventOf(*config);
    if (event != nullptr && IsOnDevice(comm)) RecordLaunch(event, stream);
    return call();
  });
}

}  // namespace

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"AllReduce", sendbuff, recvbuff, count, datatype, comm, stream, op});
  return FromTutti(tuttiAllReduce(sendbuff, recvbuff, count, ToTutti(datatype), ToTutti(op), ToTutti(comm),
                                  StreamFor(comm, stream)));
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"ReduceScatter", sendbuff, recvbuff, recvcount, datatype, comm, stream, op});
  return FromTutti(tuttiReduceScatter(sendbuff, recvbuff, recvcount, ToTutti(datatype), ToTutti(op), ToTutti(comm),
                                      StreamFor(comm, stream)));
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"AllGather", sendbuff, recvbuff, sendcount, datatype, comm, stream});
  return FromTutti(
      tuttiAllGather(sendbuff, recvbuff, sendcount, ToTutti(datatype), ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"AlltoAll", sendbuff, recvbuff, count, datatype, comm, stream});
  return FromTutti(tuttiAlltoAll(sendbuff, recvbuff, count, ToTutti(datatype), ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Reduce", sendbuff, recvbuff, count, datatype, comm, stream, op, root});
  return FromTutti(tuttiReduce(sendbuff, recvbuff, count, ToTutti(datatype), ToTutti(op), root, ToTutti(comm),
                               StreamFor(comm, stream)));
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Broadcast", sendbuff, recvbuff, count, datatype, comm, stream, 0, root});
  return FromTutti(
      tuttiBroadcast(sendbuff, recvbuff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Bcast", buff, buff, count, datatype, comm, stream, 0, root});
  return FromTutti(tuttiBcast(buff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Gather", sendbuff, recvbuff, count, datatype, comm, stream, 0, root});
  return FromTutti(
      tuttiGather(sendbuff, recvbuff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Scatter", sendbuff, recvbuff, count, datatype, comm, stream, 0, root});
  return FromTutti(
      tuttiScatter(sendbuff, recvbuff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Send", sendbuff, nullptr, count, datatype, comm, stream, 0, peer, subsystem::kColl | subsystem::kP2p});
  return FromTutti(tuttiSend(sendbuff, count, ToTutti(datatype), peer, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const tutti::CallsFrom caller;
  LogCall({"Recv", nullptr, recvbuff, count, datatype, comm, stream, 0, peer, subsystem::kColl | subsystem::kP2p});
  return FromTutti(tuttiRecv(recvbuff, count, ToTutti(datatype), peer, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return FromTutti(tuttiRedOpCreatePreMulSum(reinterpret_cast<tuttiRedOp_t*>(op), scalar, ToTutti(datatype),
                                             ToTutti(residence), ToTutti(comm)));
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return FromTutti(tuttiRedOpDestroy(ToTutti(op), ToTutti(comm)));
}

ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream); });
}

ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                     const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream); });
}

ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream); });
}

ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream); });
}

ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                              const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream); });
}

ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}

ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}

ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                               ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  const tutti::CallsFrom caller;
  return Configured(config, comm, stream,
                    [&] { return ncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}
