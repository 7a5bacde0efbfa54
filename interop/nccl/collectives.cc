// Collectives, sends, receives and operators: forwarded to Tutti, with its checks and messages.
#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

// A communicator without a device works on host memory in the caller's thread and ignores the stream. Queried on each
// call, since that is cheaper than looking up a cached answer.
tuttiStream_t StreamFor(ncclComm_t comm, cudaStream_t stream) {
  int device = TUTTI_DEVICE_NONE;
  if (stream == nullptr || tuttiCommCuDevice(ToTutti(comm), &device) != tuttiSuccess) return nullptr;
  return device == TUTTI_DEVICE_NONE ? nullptr : stream;
}

}  // namespace

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return FromTutti(tuttiAllReduce(sendbuff, recvbuff, count, ToTutti(datatype), ToTutti(op), ToTutti(comm),
                                  StreamFor(comm, stream)));
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return FromTutti(tuttiReduceScatter(sendbuff, recvbuff, recvcount, ToTutti(datatype), ToTutti(op), ToTutti(comm),
                                      StreamFor(comm, stream)));
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return FromTutti(
      tuttiAllGather(sendbuff, recvbuff, sendcount, ToTutti(datatype), ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream) {
  return FromTutti(tuttiAlltoAll(sendbuff, recvbuff, count, ToTutti(datatype), ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return FromTutti(tuttiReduce(sendbuff, recvbuff, count, ToTutti(datatype), ToTutti(op), root, ToTutti(comm),
                               StreamFor(comm, stream)));
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return FromTutti(
      tuttiBroadcast(sendbuff, recvbuff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return FromTutti(tuttiBcast(buff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return FromTutti(
      tuttiGather(sendbuff, recvbuff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return FromTutti(
      tuttiScatter(sendbuff, recvbuff, count, ToTutti(datatype), root, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return FromTutti(tuttiSend(sendbuff, count, ToTutti(datatype), peer, ToTutti(comm), StreamFor(comm, stream)));
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
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
