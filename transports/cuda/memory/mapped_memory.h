// Physical memory of a GPU and the addresses that it is mapped to, which CUDA keeps apart (cuMemCreate, cuMemMap): memory
// of PyTorch's expandable segments, and tuttiMemAlloc's. Other processes get it by file descriptors.
//
// Thread-safety: an object is used by one thread at a time; the functions may be called from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "transports/cuda/resources.h"

namespace tutti::cuda_transport {

// A handle of one physical allocation, which lives as long as a handle or a mapping of it. Move-only. All but the
// constructor and At() throw tuttiUnhandledCudaError.
class PhysicalMemory {
 public:
  // Takes over the handle.
  PhysicalMemory(const CudaDriver& driver, CuMemory handle) : driver_(&driver), handle_(handle) {}
  PhysicalMemory(PhysicalMemory&& other) noexcept : driver_(other.driver_), handle_(std::exchange(other.handle_, 0)) {}
  PhysicalMemory& operator=(PhysicalMemory&&) = delete;
  ~PhysicalMemory();

  // What is mapped at this address; null if that is memory of another kind, or none.
  static std::optional<PhysicalMemory> At(const CudaDriver& driver, const void* pointer);
  // Another process's.
  static PhysicalMemory Import(const CudaDriver& driver, const FileDescriptor& file);

  // Whether other processes can get it: its maker decides.
  bool shareable() const;
  FileDescriptor Export() const;
  CuMemory handle() const { return handle_; }

 private:
  const CudaDriver* driver_;
  CuMemory handle_;
};

// What cuMemCreate takes for memory of this device that other processes can get.
CuMemoryProperties ShareableMemoryOf(int device);

// A range of addresses with physical allocations. Move-only. Throws tuttiUnhandledCudaError.
class MappedMemory {
 public:
  MappedMemory() = default;
  // Reserves addresses for `room` bytes.
  MappedMemory(const CudaDriver& driver, CuContext context, std::size_t room);
  MappedMemory(MappedMemory&& other) noexcept { std::swap(held_, other.held_); }
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~MappedMemory();

  // Maps the memory, of that many bytes, at this place of the range; kernels of these devices may use it. If it throws,
  // nothing is mapped there.
  void MapAt(std::size_t place, const PhysicalMemory& memory, std::size_t bytes, std::span<const int> devices);
  // Behind what was appended before. REQUIRES: nothing was mapped otherwise.
  void Append(const PhysicalMemory& memory, std::size_t bytes, std::span<const int> devices) {
    MapAt(held_.used, memory, bytes, devices);
  }
  // Ends all mappings; the addresses stay reserved. Never throws.
  void Unmap() noexcept;
  const CudaDriver& driver() const { return *held_.driver; }
  CuContext context() const { return held_.context; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(held_.address); }
  std::size_t bytes() const { return held_.used; }  // that are mapped
  std::size_t room() const { return held_.room; }

 private:
  struct Piece {
    std::size_t place, bytes;
  };
  struct Held {
    const CudaDriver* driver = nullptr;
    CuContext context = nullptr;
    CuPointer address = 0;
    std::size_t room = 0, used = 0;
    std::vector<Piece> pieces;  // what is mapped
  };

  Held held_;
};

// New memory of the context's device, for all devices of this process that reach it, and shareable. It may be longer
// than asked. Null where the driver makes no such memory.
std::optional<MappedMemory> NewMappedMemory(const CudaDriver& driver, CuContext context, std::size_t bytes);

// What NewMappedMemory rounds to. REQUIRES: the driver makes such memory. Throws tuttiUnhandledCudaError.
std::size_t MemoryGranularity(const CudaDriver& driver, CuContext context);

// Devices whose kernels use memory: its own, or as NewMappedMemory's.
enum class MemoryUsers { own, all };
// Maps new memory of the context's device there. REQUIRES: both are multiples of MemoryGranularity(). Throws
// tuttiUnhandledCudaError.
void FillWithNewMemory(MappedMemory& mapped, std::size_t place, std::size_t bytes, MemoryUsers users);

// The physical allocations under a range of addresses, in order.
struct Pieces {
  struct Piece {
    CuPointer address;
    std::size_t bytes;
  };
  enum class Fault { none, hole, not_shareable };

  std::vector<Piece> all;  // empty: the range begins in memory of another kind
  std::size_t offset = 0;  // of the range in the first piece
  Fault fault = Fault::none;
};
Pieces PiecesUnder(const CudaDriver& driver, CuContext context, const void* buffer, std::size_t bytes);

}  // namespace tutti::cuda_transport
