// The driver's interface to what NICs do with a device's memory.
#include "testing/fake_gpu/memory/dma_buf.h"

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/memory/memory.h"
#include "testing/fake_gpu/memory/physical_memory.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr pointer, std::size_t bytes, CUmemRangeHandleType type,
                                       unsigned long long flags) {
  return Answer([&] {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    Require(type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD && flags == 0 && bytes > 0 && bytes % page == 0 &&
                pointer % page == 0,
            CUDA_ERROR_INVALID_VALUE);
    Require(TheEnvironment().dma_buf != Environment::DmaBuf::none, CUDA_ERROR_NOT_SUPPORTED);
    Require(TheEnvironment().dma_buf != Environment::DmaBuf::refused, CUDA_ERROR_NOT_PERMITTED);
    std::vector<DmaBufPiece> pieces;
    for (std::uintptr_t at = pointer; at < pointer + bytes;) {
      const auto range = Ranges::Instance().Find(at);
      Require(range && range->kind == Kind::kMapped, CUDA_ERROR_INVALID_VALUE);
      const std::uint64_t offset = at - range->address;
      const auto here = std::min<std::uint64_t>(range->bytes - offset, pointer + bytes - at);
      pieces.push_back({.file = range->mapping->file(), .offset = offset, .bytes = here});
      at += here;
    }
    const std::size_t length = pieces.size() * sizeof pieces[0];
    const int file = NewFile(length, "tutti-fake_gpu-dma-buf");
    if (pwrite(file, pieces.data(), length, 0) != static_cast<ssize_t>(length)) {
      close(file);
      Fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *static_cast<int*>(handle) = file;
  });
}
