// The runtime's captures and graphs: the driver's under another name.
#include "testing/fake_gpu/runtime/call.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

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

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  return Call([&] {
    CUstreamCaptureStatus said{};
    cuuint64_t number = 0;
    const CUresult result = cuStreamGetCaptureInfo(stream, &said, &number, graph, nodes, nullptr, count);
    *status = static_cast<cudaStreamCaptureStatus>(said);
    if (id != nullptr) *id = number;
    if (edges != nullptr) *edges = nullptr;  // all edges are the usual ones
    return result;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* edges, std::size_t count, unsigned flags) {
  return Call([&] {
    return edges == nullptr ? cuStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags)
                            : CUDA_ERROR_NOT_SUPPORTED;
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

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
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

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return Call([&] { return cuGraphGetNodes(graph, nodes, count); });
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy, unsigned references,
                                 unsigned flags) {
  return Call([&] { return cuUserObjectCreate(object, data, destroy, references, flags); });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return Call([&] { return cuUserObjectRelease(object, count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
  return Call([&] { return cuGraphRetainUserObject(graph, object, count, flags); });
}
