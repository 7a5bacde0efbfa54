#include "transports/cuda/direct_memory.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/numbers/rounding.h"

namespace tutti::cuda_transport {
namespace {

// Whether the device's own kernels see what NICs have written, once they see what was written to the host after it. Where
// they do not, the driver's flush or a read by the NIC would have to come between. Neither is there: the proxy that would
// ask for it must not wait for the driver, which may wait for kernels that wait for the proxy.
bool OrdersWrites(const CudaDevice& device) { return device.Attribute(kCuWritesOrdering) >= kCuOrderedForOwner; }

}  // namespace

std::string DirectMemory::WhyNot(const CudaDevice& device) {
  const auto& driver = device.driver();
  constexpr int kFirstVersion = 11070;  // of CUDA with dma-buf
  if (driver.cuMemGetHandleForAddressRange == nullptr) {
    return WhyTooOld(driver, kFirstVersion);
  }
  if (device.Attribute(kCuDmaBuf) == 0) {
    return fmt::format(
        "device {} gives no dma-buf files: that takes NVIDIA's open kernel modules and Linux 5.12 or later",
        device.ordinal());
  }
  if (device.Attribute(kCuVirtualMemory) == 0 || device.Attribute(kCuFileHandles) == 0 ||
      device.Attribute(kCuVirtualMemoryRdma) == 0) {
    return fmt::format(
        "device {} has no mapped memory that NICs may use: update the driver; MIG, virtual machines and the driver's "
        "options may exclude it, too",
        device.ordinal());
  }
  if (!OrdersWrites(device)) {
    return fmt::format(
        "kernels of device {} may read old data after a NIC has written new, unless they are flushed, which Tutti does "
        "not do: NICs keep to host memory",
        device.ordinal());
  }
  return "";
}

DirectMemory::DirectMemory(const CudaDevice& device, std::size_t bytes)
    : device_(device),
      granularity_(MemoryGranularity(device.driver(), device.context())),
      mapped_(device.driver(), device.context(), RoundUp(bytes, granularity_)) {}

void DirectMemory::Fill(std::size_t begin, std::size_t end) {
  const std::size_t last = (end + granularity_ - 1) / granularity_;
  for (std::size_t piece = begin / granularity_; piece < last; ++piece) {
    std::size_t missing = piece;
    while (missing < last && !filled_.contains(missing)) ++missing;
    if (missing == piece) continue;
    FillWithNewMemory(mapped_, piece * granularity_, (missing - piece) * granularity_, MemoryUsers::own);
    for (; piece < missing; ++piece) filled_.insert(piece);
    bytes_.store(mapped_.bytes(), std::memory_order_relaxed);
  }
  if (FileOf(data() + begin, end - begin)) return;
  auto file = Export(data() + begin, end - begin);
  const std::lock_guard lock(mutex_);
  parts_.try_emplace(begin, Part{end, std::move(file)});
}

std::optional<progress::DeviceMemory::File> DirectMemory::FileOf(const std::byte* begin, std::size_t bytes) const {
  const auto place = static_cast<std::size_t>(begin - data());
  const std::lock_guard lock(mutex_);
  const auto after = parts_.upper_bound(place);
  if (after == parts_.begin()) return std::nullopt;
  const auto& [first, part] = *std::prev(after);
  if (place + bytes > part.end) return std::nullopt;
  return File{part.file.get(), place - first};
}

FileDescriptor DirectMemory::Export(const std::byte* begin, std::size_t bytes) const {
  const auto& driver = device_.driver();
  const CurrentDevice current(driver, device_.context());
  int file = -1;
  const auto result =
      driver.cuMemGetHandleForAddressRange(&file, reinterpret_cast<CuPointer>(begin), bytes, kCuDmaBufFile, 0);
  try {
    driver.Check(result, "cuMemGetHandleForAddressRange");
  } catch (const Error& error) {
    Throw(tuttiUnhandledCudaError,
          "device {} gives NICs none of its memory ({}): a virtual machine, a container or the driver's options may "
          "forbid it",
          device_.ordinal(), error.what());
  }
  return FileDescriptor(file);
}

}  // namespace tutti::cuda_transport
