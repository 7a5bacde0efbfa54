// Copies and fills.
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "testing/fake_cuda/call.h"
#include "testing/fake_cuda/devices.h"
#include "testing/fake_cuda/environment.h"
#include "testing/fake_cuda/memory/memory.h"
#include "testing/fake_cuda/stream/capture.h"
#include "testing/fake_cuda/stream/stream.h"

namespace tutti::standin {
namespace {

// Memory inside a range that the driver knows, or pageable host memory, which it does not know.
enum class Side { kKnown, kPageable };

Side Check(std::uintptr_t address, std::size_t bytes) {
  const auto range = Ranges::Instance().Find(address);
  if (!range) return Side::kPageable;
  Require(bytes <= range->bytes - (address - range->address), CUDA_ERROR_INVALID_VALUE);
  return Side::kKnown;
}

void RequireKnown(std::uintptr_t address, std::size_t bytes) {
  Require(bytes == 0 || Check(address, bytes) == Side::kKnown, CUDA_ERROR_INVALID_VALUE);
}

bool Captured(const Stream& stream) {
  const std::lock_guard lock(CaptureLock());
  return stream.capture != nullptr;
}

// As the real driver: bytes from pageable memory are read, and bytes to it written, before the call returns.
void Copy(CUstream handle, std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  const auto stream = StreamOf(handle);
  if (bytes == 0) return;
  const Side target = Check(to, bytes);
  const Side source = Check(from, bytes);
  if (source == Side::kPageable && target == Side::kKnown && !Captured(*stream)) {
    const auto* first = static_cast<const std::byte*>(Pointer(from));
    auto taken = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
    Enqueue(stream, [to, taken = std::move(taken)] { std::memcpy(Pointer(to), taken->data(), taken->size()); });
    return;
  }
  const auto done = Enqueue(stream, [=] { std::memmove(Pointer(to), Pointer(from), bytes); });
  if (target == Side::kPageable) done.Wait();
}

void CopyNow(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  ForbidWhileCapturing();
  Copy(nullptr, to, from, bytes);
  StreamOf(nullptr)->Now().Wait();
}

template <class T>
Moment Fill(CUstream handle, CUdeviceptr to, T value, std::size_t count) {
  const auto stream = StreamOf(handle);
  Require(to % sizeof(T) == 0, CUDA_ERROR_INVALID_VALUE);
  // A library unaware of the driver hands out ordinary memory as a device's (environment.h).
  if (!TheEnvironment().synchronous) RequireKnown(to, count * sizeof(T));
  return Enqueue(stream, [=] { std::fill_n(static_cast<T*>(Pointer(to)), count, value); });
}

}  // namespace
}  // namespace tutti::standin

using namespace tutti::standin;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  return Answer([&] {
    RequireKnown(to, bytes);
    CopyNow(to, Address(from), bytes);
  });
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  return Answer([&] {
    RequireKnown(from, bytes);
    CopyNow(Address(to), from, bytes);
  });
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return Answer([&] {
    RequireKnown(to, bytes);
    RequireKnown(from, bytes);
    CopyNow(to, from, bytes);
  });
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return Answer([&] { CopyNow(to, from, bytes); });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return Answer([&] {
    RequireKnown(to, bytes);
    Copy(stream, to, Address(from), bytes);
  });
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return Answer([&] {
    RequireKnown(from, bytes);
    Copy(stream, Address(to), from, bytes);
  });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return Answer([&] {
    RequireKnown(to, bytes);
    RequireKnown(from, bytes);
    Copy(stream, to, from, bytes);
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return Answer([&] { Copy(stream, to, from, bytes); });
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t count) {
  return Answer([&] {
    ForbidWhileCapturing();
    Fill(nullptr, to, value, count).Wait();
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return Answer([&] { Fill(stream, to, value, count); });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return Answer([&] { Fill(stream, to, value, count); });
}
