// A rank's GPU, and memory that it shares with other processes: IPC handles, opened memory, pinned segments.
//
// Thread-safety: immutable once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "transports/cuda/resources.h"
#include "transports/shm/segment.h"

namespace tutti::cuda_transport {

// A rank's GPU. Its primary context is held while this lives.
class CudaDevice {
 public:
  // Throws tuttiInvalidArgument if there is no such device.
  CudaDevice(const CudaDriver& driver, int ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CuContext context() const { return context_; }
  const CuUuid& uuid() const { return uuid_; }
  int Attribute(int attribute) const;
  bool IsSame(const CuUuid& uuid) const;
  // Whether kernels here can use the other's memory; enables it if so.
  bool Reaches(const CudaDevice& other) const;

 private:
  const CudaDriver& driver_;
  int ordinal_;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  CuUuid uuid_{};
};

// The data by which another process opens a buffer: its allocation's handle, and the buffer's offset in that.
struct ShareableBuffer {
  CuIpcHandle handle;
  std::uint64_t offset;
};
// Null if [buffer, buffer + bytes) is not inside one allocation of cudaMalloc.
std::optional<ShareableBuffer> ShareableBufferOf(const CudaDevice& device, const void* buffer, std::size_t bytes);

// Memory of another process's GPU, opened here.
class OpenedMemory {
 public:
  OpenedMemory() = default;
  // Throws tuttiUnhandledCudaError.
  OpenedMemory(const CudaDevice& device, const CuIpcHandle& handle);
  OpenedMemory(OpenedMemory&& other) noexcept { *this = std::move(other); }
  OpenedMemory& operator=(OpenedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~OpenedMemory();
  // The beginning of the part that its owner offers. Throws tuttiInternalError if that part is not all inside the
  // memory, as far as the driver knows its size.
  std::byte* Part(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  const CudaDevice* device_ = nullptr;
  std::byte* data_ = nullptr;
};

// Shared memory of the host that a GPU also uses.
class PinnedSegment {
 public:
  // Throws tuttiUnhandledCudaError.
  PinnedSegment(const CudaDevice& device, shm::Segment segment);
  ~PinnedSegment();
  PinnedSegment(const PinnedSegment&) = delete;
  PinnedSegment& operator=(const PinnedSegment&) = delete;
  // The address by which the GPU reaches it.
  std::byte* data() const { return data_; }

 private:
  const CudaDevice& device_;
  shm::Segment segment_;
  std::byte* data_ = nullptr;
};

}  // namespace tutti::cuda_transport
