// Windows of host memory: memory of tuttiMemAlloc, which every other rank of the host has mapped.
//
// Thread-safety: as memory::Windows.
#pragma once

#include "src/memory/windows.h"

namespace tutti::host_side {

class HostWindows final : public memory::Windows, public host::WindowMap {
 public:
  explicit HostWindows(const shm::Fabric& fabric) : Windows(fabric), fabric_(fabric) {}

  tuttiWindow* Register(void* buffer, std::size_t bytes, const AllGather& all_gather, Deadline deadline) override;
  using Windows::Find;
  const std::byte* Find(int rank, std::uint16_t window, std::uint64_t offset, std::size_t bytes) const override;

 private:
  void Close(std::uint16_t) override {}

  const shm::Fabric& fabric_;
};

}  // namespace tutti::host_side
