#include "transports/cuda/memory/lent_memory.h"

#include "base/file_descriptor.h"

namespace tutti::cuda_transport {

LentMemory::LentMemory(const CudaDriver& driver, CuContext context, std::size_t bytes)
    : driver_(driver), context_(context), mapped_(NewMappedMemory(driver, context, bytes)) {
  if (!mapped_) memory_ = CudaMemory::OnDevice(driver, context, bytes);
  bytes_ = mapped_ ? mapped_->bytes() : bytes;
}

void LentMemory::AwaitKernels() const {
  ReleaseIn(driver_, context_, [this] { driver_.cuCtxSynchronize(); });
}

FileDescriptor LentMemory::Export() const {
  const CurrentDevice current(driver_, context_);
  const auto memory = PhysicalMemory::At(driver_, data());
  if (!memory) Throw(tuttiInternalError, "memory that this rank lends to others is not mapped");
  return memory->Export();
}

CuIpcHandle LentMemory::Handle() const {
  const CurrentDevice current(driver_, context_);
  CuIpcHandle handle{};
  driver_.cuIpcGetMemHandle(&handle, reinterpret_cast<CuPointer>(data()));
  return handle;
}

void LentMemory::Take() { FillWithNewMemory(*mapped_, 0, bytes_, MemoryUsers::all); }

void BorrowedMemory::Map(const CudaDevice& device, const PhysicalMemory& memory, std::size_t bytes) {
  const CurrentDevice current(device.driver(), device.context());
  const int ordinal = device.ordinal();
  MappedMemory mapped =
      mapped_.data() != nullptr ? std::move(mapped_) : MappedMemory(device.driver(), device.context(), bytes);
  try {
    mapped.Append(memory, bytes, std::span(&ordinal, 1));
  } catch (...) {
    mapped.Unmap();
    if (known_) mapped_ = std::move(mapped);
    throw;
  }
  mapped_ = std::move(mapped);
  known_ = true;
}

}  // namespace tutti::cuda_transport
