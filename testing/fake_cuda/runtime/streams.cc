// The runtime's streams, events and graphs: the driver's under another name.
#include "testing/fake_cuda/runtime/call.h"

using namespace tutti::standin;  // NOLINT: what follows is the runtime's interface, in no namespace

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Call([&] { return cuStreamCreate(stream, flags); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Call([&] { return cuStreamDestroy(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Call([&] { return cuStreamSynchronize(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Call([&] { return cuStreamQuery(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Call([&] { return cuStreamWaitEvent(stream, event, flags); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Call([&] { return cuEventCreate(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Call([&] { return cuEventDestroy(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Call([&] { return cuEventRecord(event, stream); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Call([&] { return cuEventSynchronize(event); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Call([&] { return cuEventQuery(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Call([&] { return cuEventElapsedTime(milliseconds, start, end); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Call([&] { return cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Call([&] { return cuStreamEndCapture(stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return Call([&] {
    CUstreamCaptureStatus said{};
    const CUresult result = cuStreamIsCapturing(stream, &said);
    *status = static_cast<cudaStreamCaptureStatus>(said);
    return result;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Call([&] {
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult result = cuThreadExchangeStreamCaptureMode(&exchanged);
    *mode = static_cast<cudaStreamCaptureMode>(exchanged);
    return result;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return Call([&] { return cuGraphInstantiateWithFlags(exec, graph, flags); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return Call([&] { return cuGraphLaunch(exec, stream); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Call([&] { return cuGraphExecDestroy(exec); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Call([&] { return cuGraphDestroy(graph); });
}
