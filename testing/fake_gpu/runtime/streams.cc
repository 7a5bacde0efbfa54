// The runtime's streams and events: the driver's under another name.
#include <memory>

#include "testing/fake_gpu/runtime/call.h"
#include "testing/fake_gpu/runtime/refusals.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the runtime's interface, in no namespace

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Call([&] { return cuStreamCreate(stream, flags); });
}

// All streams have the same priority.
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call([&] {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = 0;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return Call([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return Call([&] {
    unsigned flags = 0;
    *priority = 0;
    return cuStreamGetFlags(stream, &flags);  // finds a wrong handle out
  });
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

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return Call([&] { return cuLaunchHostFunc(stream, function, data); });
}

// Unlike a host function, a callback learns its stream and the stream's state, and cannot be captured.
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags) {
  struct Callback {
    cudaStream_t stream;
    cudaStreamCallback_t function;
    void* data;
  };
  return Call([&] {
    if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureStatus status{};
    CUresult result = cuStreamIsCapturing(stream, &status);
    if (result != CUDA_SUCCESS) return result;
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    auto kept = std::make_unique<Callback>(Callback{stream, callback, data});
    result = cuLaunchHostFunc(
        stream,
        [](void* given) {
          const std::unique_ptr<Callback> own(static_cast<Callback*>(given));
          own->function(own->stream, cudaSuccess, own->data);
        },
        kept.get());
    if (result == CUDA_SUCCESS) kept.release();
    return result;
  });
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

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags != cudaEventRecordDefault) return RefuseFunction("cudaEventRecordWithFlags with flags");
  return cudaEventRecord(event, stream);
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
