// Functions that programs are linked with and that the fake GPU does not have: pools, graphs made node by node, events
// of other processes, device code and its variables, the profiler. Each says its name.
#include "testing/fake_gpu/runtime/refusals.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) { return RefuseFunction("cudaDeviceGetDefaultMemPool"); }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return RefuseFunction("cudaMemPoolGetAttribute");
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) {
  return RefuseFunction("cudaMemPoolSetAccess");
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return RefuseFunction("cudaMemPoolSetAttribute");
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return RefuseFunction("cudaMemPoolTrimTo"); }

cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) {
  return RefuseFunction("cudaDeviceGetGraphMemAttribute");
}
cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) {
  return RefuseFunction("cudaDeviceSetGraphMemAttribute");
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, const cudaGraphEdgeData*,
                             std::size_t, cudaGraphNodeParams*) {
  return RefuseFunction("cudaGraphAddNode");
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle*, cudaGraph_t, unsigned, unsigned) {
  return RefuseFunction("cudaGraphConditionalHandleCreate");
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*, std::size_t*) {
  return RefuseFunction("cudaGraphNodeGetDependencies");
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t, cudaGraph_t, const cudaGraphNode_t*, const cudaGraphEdgeData*,
                                          std::size_t, cudaStreamCaptureMode) {
  return RefuseFunction("cudaStreamBeginCaptureToGraph");
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return RefuseFunction("cudaIpcGetEventHandle");
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return RefuseFunction("cudaIpcOpenEventHandle");
}

cudaError_t cudaGetSymbolAddress(void**, const void*) { return RefuseFunction("cudaGetSymbolAddress"); }
cudaError_t cudaMemcpyToSymbol(const void*, const void*, std::size_t, std::size_t, cudaMemcpyKind) {
  return RefuseFunction("cudaMemcpyToSymbol");
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  return RefuseFunction("cudaKernelSetAttributeForDevice");
}
cudaError_t cudaLibraryGetGlobal(void**, std::size_t*, cudaLibrary_t, const char*) {
  return RefuseFunction("cudaLibraryGetGlobal");
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) {
  return RefuseFunction("cudaLibraryGetKernel");
}
cudaError_t cudaLibraryGetKernelCount(unsigned*, cudaLibrary_t) { return RefuseFunction("cudaLibraryGetKernelCount"); }
cudaError_t cudaLibraryGetManaged(void**, std::size_t*, cudaLibrary_t, const char*) {
  return RefuseFunction("cudaLibraryGetManaged");
}
cudaError_t cudaLibraryGetUnifiedFunction(void**, cudaLibrary_t, const char*) {
  return RefuseFunction("cudaLibraryGetUnifiedFunction");
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*,
                                void**, unsigned) {
  return RefuseFunction("cudaLibraryLoadData");
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t*, const char*, cudaJitOption*, void**, unsigned, cudaLibraryOption*,
                                    void**, unsigned) {
  return RefuseFunction("cudaLibraryLoadFromFile");
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return RefuseFunction("cudaLibraryUnload"); }

cudaError_t cudaProfilerStart() { return RefuseFunction("cudaProfilerStart"); }
cudaError_t cudaProfilerStop() { return RefuseFunction("cudaProfilerStop"); }
