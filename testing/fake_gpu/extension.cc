#include "testing/fake_gpu/extension.h"

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/stream/stream.h"

unsigned long long fakeGpuWaits() { return tutti::fake_gpu::WaitsOfCallers(); }

CUresult fakeGpuEnqueue(CUstream stream, const std::function<void()>& work) {
  using namespace tutti::fake_gpu;  // NOLINT: the interface is in no namespace
  return Answer([&] {
    Enqueue(StreamOf(stream), [work] {
      QueueHead::Begun();
      work();
    });
  });
}
