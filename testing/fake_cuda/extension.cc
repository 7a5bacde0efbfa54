#include "testing/fake_cuda/extension.h"

#include "testing/fake_cuda/call.h"
#include "testing/fake_cuda/stream/stream.h"

unsigned long long standinWaits() { return tutti::standin::WaitsOfCallers(); }

CUresult standinEnqueue(CUstream stream, const std::function<void()>& work) {
  using namespace tutti::standin;  // NOLINT: the interface is in no namespace
  return Answer([&] { Enqueue(StreamOf(stream), work); });
}
