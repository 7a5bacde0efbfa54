// Memory of a GPU that NICs read and write (GPUDirect RDMA): the data of slots between hosts. NICs get it by dma-buf files.
//
// Address space is reserved for all of it, but memory is taken for what is used, and its files are made with it. The driver
// may wait for running kernels then.
//
// Thread-safety: Fill() by one thread at a time; all else by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/file_descriptor.h"
#include "transports/cuda/cuda_device.h"
#include "transports/cuda/memory/mapped_memory.h"
#include "transports/progress/network_transport.h"

namespace tutti::cuda_transport {

class DirectMemory final : public progress::DeviceMemory {
 public:
  // Why the device or its driver cannot give NICs such memory, and what to do about it; "" if they say that they can.
  static std::string WhyNot(const CudaDevice& device);
  // Addresses for so many bytes. REQUIRES: WhyNot() is empty. Throws tuttiUnhandledCudaError.
  DirectMemory(const CudaDevice& device, std::size_t bytes);

  std::byte* data() const { return mapped_.data(); }
  // Of the GPU's memory, that are taken.
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Takes memory for this part, if it has none, and makes its file. Throws tuttiUnhandledCudaError; then it may be called
  // again. REQUIRES: whole pages; no other part overlaps with it.
  void Fill(std::size_t begin, std::size_t end);

  std::optional<File> FileOf(const std::byte* begin, std::size_t bytes) const override;

 private:
  struct Part {
    std::size_t end;
    FileDescriptor file;
  };

  FileDescriptor Export(const std::byte* begin, std::size_t bytes) const;

  const CudaDevice& device_;
  std::size_t granularity_;
  MappedMemory mapped_;
  std::atomic<std::size_t> bytes_{0};
  std::set<std::size_t> filled_;  // which of its pieces of `granularity_`
  mutable std::mutex mutex_;      // of what follows
  std::map<std::size_t, Part> parts_;  // that have files, by where they begin
};

}  // namespace tutti::cuda_transport
