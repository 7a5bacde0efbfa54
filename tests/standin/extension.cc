#include "tests/standin/extension.h"

#include "tests/standin/call.h"
#include "tests/standin/stream.h"

CUresult standinEnqueue(CUstream stream, const std::function<void()>& work) {
  using namespace tutti::standin;  // NOLINT: the interface is in no namespace
  return Answer([&] { Enqueue(StreamOf(stream), work); });
}
