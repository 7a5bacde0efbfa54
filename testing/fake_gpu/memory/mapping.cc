#include "testing/fake_gpu/memory/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/processor/processors.h"

namespace tutti::fake_gpu {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

// `reserved`: what is at the address now is only there to keep it.
void* Pages(std::uintptr_t at, std::size_t bytes, int protection, int file, bool reserved = false) {
  const int fixed = at == 0 ? 0 : reserved ? MAP_FIXED : MAP_FIXED_NOREPLACE;
  void* const pages = mmap(Pointer(at), bytes, protection, MAP_SHARED | fixed, file, 0);
  Require(pages != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  return pages;
}

}  // namespace

Mapping::Mapping(int file, std::size_t bytes, bool hidden, std::uintptr_t at)
    : file_(file), bytes_(bytes), reserved_(at != 0) {
  try {
    const bool apart = TheEnvironment().apart;
    const std::uintptr_t wanted = at != 0 ? at : apart ? Processor::Reserve(bytes) : 0;
    void* const pages = Pages(wanted, bytes, apart && !hidden ? kReadWrite : PROT_NONE, file, at != 0);
    address_ = Address(pages);
    view_ = static_cast<std::byte*>(apart && hidden ? Pages(0, bytes, kReadWrite, file) : pages);
    if (apart) Processors::Instance().Add(address_, bytes, file);
  } catch (...) {
    Release();
    throw;
  }
}

void Mapping::Release() {
  if (address_ != 0 && reserved_) {
    mmap(Pointer(address_), bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  } else if (address_ != 0) {
    munmap(Pointer(address_), bytes_);
  }
  if (view_ != nullptr && Address(view_) != address_) munmap(view_, bytes_);
  close(file_);
}

std::shared_ptr<Mapping> Mapping::Make(std::size_t bytes, bool hidden) {
  const int file = memfd_create("tutti-fake_gpu", MFD_CLOEXEC);
  Require(file >= 0, CUDA_ERROR_OUT_OF_MEMORY);
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  return std::make_shared<Mapping>(file, bytes, hidden);
}

Mapping::~Mapping() {
  if (TheEnvironment().apart) Processors::Instance().Remove(address_);
  Release();
}

void Mapping::SetAccess(CUdevice device, bool may) {
  const std::lock_guard lock(mutex_);
  const bool before = !access_.empty();
  if (may) {
    access_.insert(device);
  } else {
    access_.erase(device);
  }
  if (TheEnvironment().apart) return Processors::Instance().SetAccess(address_, device, may);
  const bool after = !access_.empty();
  if (before == after) return;
  Require(mprotect(Pointer(address_), bytes_, after ? kReadWrite : PROT_NONE) == 0, CUDA_ERROR_OUT_OF_MEMORY);
}

void Mapping::AllowAll() {
  for (CUdevice device = 0; device < TheEnvironment().devices(); ++device) SetAccess(device, true);
}

bool Mapping::accessible() const {
  const std::lock_guard lock(mutex_);
  return !access_.empty();
}

}  // namespace tutti::fake_gpu
