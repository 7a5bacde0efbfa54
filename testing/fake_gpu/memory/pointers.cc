// The driver's pointer attributes.
#include <cuda.h>

#include <cstdint>
#include <optional>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/memory/memory.h"

namespace tutti::fake_gpu {
namespace {

template <class T>
void Put(void* where, T value) {
  *static_cast<T*>(where) = value;
}

// `range`: the one that contains the pointer. Without a range, writes the attribute's null value.
void Tell(CUpointer_attribute attribute, const std::optional<Range>& range, CUdeviceptr pointer, void* value) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return Put(value, range ? ContextOf(range->device) : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      if (!range) return Put<unsigned>(value, 0);
      return Put<unsigned>(value, range->OnDevice() ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return Put<CUdeviceptr>(value, range ? pointer : 0);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      // A program must not learn that it could read a device's memory.
      if (range && range->OnDevice() && range->kind != Kind::kManaged) Fail(CUDA_ERROR_INVALID_VALUE);
      return Put<void*>(value, range ? Pointer(pointer) : nullptr);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return Put<int>(value, range ? range->device : CU_DEVICE_INVALID);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return Put<unsigned long long>(value, range ? range->id : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return Put<CUdeviceptr>(value, range ? range->address : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return Put<std::size_t>(value, range ? range->bytes : 0);
    case CU_POINTER_ATTRIBUTE_MAPPED: return Put<bool>(value, range.has_value());
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Put<bool>(value, range && range->kind == Kind::kDevice && !range->pooled);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return Put<bool>(value, range && range->kind == Kind::kManaged);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return Put<bool>(value, false);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return Put<unsigned long long>(value, 0);
    default: Fail(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return Answer([&] {
    const auto range = Ranges::Instance().Find(pointer);
    Require(value != nullptr && range, CUDA_ERROR_INVALID_VALUE);
    Tell(attribute, range, pointer, value);
  });
}

// Unlike the call above, succeeds for memory that the driver does not know.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr pointer) {
  return Answer([&] {
    const auto range = Ranges::Instance().Find(pointer);
    for (unsigned i = 0; i < count; ++i) {
      const bool hidden = attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER && range && range->OnDevice() &&
                          range->kind != Kind::kManaged;
      Tell(attributes[i], hidden ? std::nullopt : range, pointer, values[i]);
    }
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return Answer([&] {
    const auto range = Ranges::Instance().Find(pointer);
    Require(value != nullptr && range && range->OnDevice(), CUDA_ERROR_INVALID_VALUE);
    Require(attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr pointer) {
  return Answer([&] {
    const auto range = Ranges::Instance().Find(pointer);
    Require(range.has_value(), CUDA_ERROR_NOT_FOUND);
    if (base != nullptr) *base = range->address;
    if (bytes != nullptr) *bytes = range->bytes;
  });
}
