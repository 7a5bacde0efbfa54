// Copies and fills.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/memory/memory.h"
#include "testing/fake_gpu/stream/capture.h"
#include "testing/fake_gpu/stream/stream.h"

namespace tutti::fake_gpu {
namespace {

// Bytes where the driver itself reaches them.
struct Part {
  std::byte* data;
  std::size_t bytes;
  std::shared_ptr<Mapping> mapping;  // keeps them; null: the caller's own
};

// One end of a copy: memory inside a range that the driver knows, or pageable host memory, which it does not know.
struct End {
  bool pageable;
  std::vector<Part> parts;  // one after the other
};

// Memory without an address of its own may have been mapped piece by piece to addresses that follow each other. A copy
// needs no access of one device to the other's memory, because the driver takes it through the host if need be.
End Check(std::uintptr_t address, std::size_t bytes) {
  const auto first = Ranges::Instance().Find(address);
  if (!first || first->mapping == nullptr) {
    Require(!first || bytes <= first->bytes - (address - first->address), CUDA_ERROR_INVALID_VALUE);
    return {!first, {{static_cast<std::byte*>(Pointer(address)), bytes, nullptr}}};
  }
  End end{false, {}};
  for (std::size_t done = 0; done == 0 || done < bytes;) {
    const auto range = Ranges::Instance().Find(address + done);
    const bool follows = range && range->kind == Kind::kMapped && range->device == first->device;
    Require(done == 0 || (first->kind == Kind::kMapped && follows), CUDA_ERROR_INVALID_VALUE);
    Require(range->mapping->accessible(), CUDA_ERROR_INVALID_VALUE);
    const std::size_t from_start = address + done - range->address;
    const std::size_t part = std::min(bytes - done, range->bytes - from_start);
    end.parts.push_back({range->mapping->view() + from_start, part, range->mapping});
    done += part;
    if (bytes == 0) break;
  }
  return end;
}

// Both are equally long.
void Move(const End& to, const End& from) {
  std::size_t t = 0, f = 0, in_to = 0, in_from = 0;
  while (t < to.parts.size() && f < from.parts.size()) {
    const auto &target = to.parts[t], &source = from.parts[f];
    const std::size_t bytes = std::min(target.bytes - in_to, source.bytes - in_from);
    std::memmove(target.data + in_to, source.data + in_from, bytes);
    in_to += bytes;
    in_from += bytes;
    if (in_to == target.bytes) ++t, in_to = 0;
    if (in_from == source.bytes) ++f, in_from = 0;
  }
}

void RequireKnown(std::uintptr_t address, std::size_t bytes) {
  Require(bytes == 0 || !Check(address, bytes).pageable, CUDA_ERROR_INVALID_VALUE);
}

bool Captured(const Stream& stream) {
  const std::lock_guard lock(CaptureLock());
  return stream.capture != nullptr;
}

// As the real driver: bytes from pageable memory are read, and bytes to it written, before the call returns.
void Copy(CUstream handle, std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  const auto stream = StreamOf(handle);
  if (bytes == 0) return;
  const End target = Check(to, bytes);
  const End source = Check(from, bytes);
  if (source.pageable && !target.pageable && !Captured(*stream)) {
    const std::byte* const data = source.parts.front().data;
    auto taken = std::make_shared<std::vector<std::byte>>(data, data + bytes);
    Enqueue(stream, [target, taken = std::move(taken)] {
      QueueHead::Begun();
      Move(target, {false, {{taken->data(), taken->size(), nullptr}}});
    });
    return;
  }
  const auto done = Enqueue(stream, [=] {
    QueueHead::Begun();
    Move(target, source);
  });
  if (target.pageable) done.MakeCallerWait();
}

// A late driver waits only where the real one must: it may return when it has read pageable memory, and does not wait
// for copies inside a device. Then only the null stream's later work is sure to see the copy.
void CopyNow(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  ForbidWhileCapturing();
  Copy(nullptr, to, from, bytes);
  const auto on_device = [](std::uintptr_t address) {
    const auto range = Ranges::Instance().Find(address);
    return range && range->OnDevice();
  };
  const bool leaves = TheEnvironment().late_us > 0 && on_device(to) && (on_device(from) || Check(from, bytes).pageable);
  if (!leaves) StreamOf(nullptr)->Now().MakeCallerWait();
}

// A range of at least so many bytes is zeroed by giving its whole pages back to the system, whose memory begins as zeros.
// The library zeroes 64 MiB for each rank, of which a test uses little.
constexpr std::size_t kLong = 1 << 20;

void ZeroLong(const Part& part) {
  const auto page = static_cast<std::uintptr_t>(getpagesize());
  const std::uintptr_t begin = Address(part.data), end = begin + part.bytes;
  const std::uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  const bool given_back = part.mapping != nullptr && madvise(Pointer(first), last - first, MADV_REMOVE) == 0;
  std::memset(part.data, 0, given_back ? first - begin : part.bytes);
  if (given_back) std::memset(Pointer(last), 0, end - last);
}

template <class T>
Moment Fill(CUstream handle, CUdeviceptr to, T value, std::size_t count) {
  const auto stream = StreamOf(handle);
  Require(to % sizeof(T) == 0, CUDA_ERROR_INVALID_VALUE);
  const End target = Check(to, count * sizeof(T));
  // A library unaware of the driver hands out ordinary memory as a device's (environment.h).
  Require(TheEnvironment().synchronous || count == 0 || !target.pageable, CUDA_ERROR_INVALID_VALUE);
  return Enqueue(stream, [=] {
    QueueHead::Begun();
    for (const auto& part : target.parts) {
      if (value == 0 && part.bytes >= kLong) {
        ZeroLong(part);
      } else {
        std::fill_n(reinterpret_cast<T*>(part.data), part.bytes / sizeof(T), value);
      }
    }
  });
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

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
    const auto done = Fill(nullptr, to, value, count);
    if (TheEnvironment().late_us == 0) done.MakeCallerWait();
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return Answer([&] { Fill(stream, to, value, count); });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return Answer([&] { Fill(stream, to, value, count); });
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned flags) {
  return Answer([&] {
    Require(flags == CU_STREAM_WRITE_VALUE_DEFAULT, CUDA_ERROR_NOT_SUPPORTED);
    Fill(stream, to, value, 1);
  });
}
