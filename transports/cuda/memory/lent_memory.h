// The memory of a rank's GPU that it lends to the others. Where the driver keeps addresses and physical memory apart, the
// latter can be given back and taken again, here and where other processes have mapped it, while all addresses stay.
//
// Thread-safety: an object is used by one thread at a time; getters may be called from any thread.
#pragma once

#include <memory>
#include <optional>

#include "base/file_descriptor.h"
#include "transports/cuda/cuda_device.h"
#include "transports/cuda/memory/mapped_memory.h"

namespace tutti::cuda_transport {

class LentMemory {
 public:
  // Throws tuttiUnhandledCudaError.
  LentMemory(const CudaDriver& driver, CuContext context, std::size_t bytes);

  std::byte* data() const { return mapped_ ? mapped_->data() : memory_.data(); }
  // What is allocated while it is not given back; at least what was asked for.
  std::size_t bytes() const { return bytes_; }
  bool can_give_back() const { return mapped_.has_value(); }

  // Waits for all that runs on the device, as far as the driver allows.
  void AwaitKernels() const;

  // How another process opens it: by descriptor if can_give_back(), else by handle. A handle may be void.
  FileDescriptor Export() const;
  CuIpcHandle Handle() const;

  // REQUIRES: can_give_back(); nobody uses the memory. Take() throws tuttiUnhandledCudaError if none is left. What is in
  // the memory then is undefined.
  void GiveBack() { mapped_->Unmap(); }
  void Take();

 private:
  const CudaDriver& driver_;
  CuContext context_;
  std::optional<MappedMemory> mapped_;
  CudaMemory memory_;  // if it is not mapped
  std::size_t bytes_;
};

// Another rank's memory of one piece, mapped for this rank's GPU.
class BorrowedMemory {
 public:
  // Maps it, at the same addresses as before. Throws tuttiUnhandledCudaError.
  void Map(const CudaDevice& device, const PhysicalMemory& memory, std::size_t bytes);
  void Unmap() { mapped_.Unmap(); }
  // Null until it was mapped once.
  std::byte* data() const { return mapped_.data(); }

 private:
  MappedMemory mapped_;
  bool known_ = false;  // kernels have its addresses
};

}  // namespace tutti::cuda_transport
