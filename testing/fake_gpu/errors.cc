// Names of the codes that the fake GPU returns.
#include <cuda.h>

#include <algorithm>
#include <array>

namespace {

struct Text {
  CUresult code;
  const char* name;
  const char* meaning;
};

constexpr std::array kTexts = {
    Text{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    Text{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Text{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Text{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    Text{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
    Text{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "no such device"},
    Text{CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "another process has the device to itself"},
    Text{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "no such context"},
    Text{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "devices do not reach each other"},
    Text{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "no such stream, event, graph, module or function"},
    Text{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "no such name"},
    Text{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "not done yet"},
    Text{CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is enabled"},
    Text{CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    Text{CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
         "memory is registered"},
    Text{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory is not registered"},
    Text{CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "not from here"},
    Text{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    Text{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         "not while a stream is captured"},
    Text{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
         "an earlier error ended the capture"},
    Text{CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would become one"},
    Text{CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
         "the capture did not begin on this stream"},
    Text{CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
         "a captured stream was not joined to the first"},
    Text{CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
         "captured work would wait for work that is not"},
    Text{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
         "the null stream would wait for captured work"},
    Text{CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    Text{CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
         "another thread began the capture"},
    Text{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel touched memory that it has no access to"},
    Text{CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many threads or registers"},
    Text{CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
         "the grid's blocks do not fit at the same time"},
    Text{CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no code for this device"},
    Text{CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "the operating system refused"},
    Text{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult Tell(CUresult code, const char** text, const char* Text::*what) {
  const auto* found = std::find_if(kTexts.begin(), kTexts.end(), [&](const Text& each) { return each.code == code; });
  *text = found == kTexts.end() ? nullptr : found->*what;
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuGetErrorName(CUresult code, const char** text) { return Tell(code, text, &Text::name); }
CUresult cuGetErrorString(CUresult code, const char** text) { return Tell(code, text, &Text::meaning); }
