// The driver's interface to streams, and to host work in stream order.
#include <utility>

#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/stream/capture.h"
#include "testing/fake_gpu/stream/stream.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return Answer([&] {
    Require((flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) == 0, CUDA_ERROR_INVALID_VALUE);
    const bool blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    *handle = Handles<CUstream, Stream>().Add(std::make_shared<Stream>(CurrentDevice(), blocking));
  });
}

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int /*priority*/) {
  return cuStreamCreate(handle, flags);
}

CUresult cuStreamDestroy(CUstream handle) {
  return Answer([&] {
    const auto stream = Handles<CUstream, Stream>().Remove(handle);
    stream->Close();
    const std::lock_guard lock(CaptureLock());
    if (stream->capture != nullptr) {
      stream->capture->invalid = true;
      if (stream->capture->origin() == stream.get()) std::exchange(stream->capture, nullptr)->End();
    }
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return Answer([&] {
    const auto stream = StreamOf(handle);
    ForbidOnCaptured(*stream);
    ForbidWhileCapturing();
    if (IsNullStream(*stream)) {  // its next work would wait for the other blocking streams
      for (const auto& other : StreamsOf(stream->device())) {
        if (other->blocking()) other->Now().Wait();
      }
    }
    stream->Now().MakeCallerWait();
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return Answer([&] {
    const auto stream = StreamOf(handle);
    ForbidOnCaptured(*stream);
    ForbidWhileCapturing();
    Require(stream->Now().Passed(), CUDA_ERROR_NOT_READY);
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return Answer([&] { *context = ContextOf(StreamOf(handle)->device()); });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return Answer([&] { *device = StreamOf(handle)->device(); });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return Answer([&] { *flags = StreamOf(handle)->blocking() ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING; });
}

CUresult cuCtxSynchronize() {
  return Answer([&] {
    ForbidWhileCapturing();
    WaitForAll(CurrentDevice());
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return Answer([&] {
    Require(function != nullptr, CUDA_ERROR_INVALID_VALUE);
    Enqueue(StreamOf(handle), [function, data] {
      const InHostFunction here;
      function(data);
    });
  });
}
