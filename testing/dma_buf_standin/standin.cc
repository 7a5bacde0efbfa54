// Stands in for ibv_reg_dmabuf_mr where the fake GPU gives out its files in the place of dma-bufs: maps what they name, and
// registers that mapping at the GPU's addresses. So real queue pairs move bytes of what is a GPU's memory to the rest of the
// program. Preloaded: it answers dlvsym, by which Tutti finds the RDMA library's functions.
//   TUTTI_FAKE_GPU_NIC_REFUSES=1  it refuses, as a driver does that knows no dma-buf
//
// Thread-safety: all of it.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "testing/fake_gpu/memory/dma_buf.h"

namespace {

using tutti::fake_gpu::DmaBufPiece;

// What dlvsym does without this library.
void* RealSymbol(void* handle, const char* name, const char* version) {
  using Function = void*(void*, const char*, const char*);
  static auto* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "dlvsym"));
  return real(handle, name, version);
}

template <typename Function>
Function* InVerbs(const char* name, const char* version) {
  static void* const library = dlopen("libibverbs.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(RealSymbol(library, name, version));
}

std::vector<DmaBufPiece> PiecesOf(int file) {
  std::vector<DmaBufPiece> pieces;
  DmaBufPiece piece;
  for (off_t at = 0; pread(file, &piece, sizeof piece, at) == sizeof piece; at += sizeof piece) {
    if (piece.mark != DmaBufPiece::kMark) return {};
    pieces.push_back(piece);
  }
  return pieces;
}

// Null: it cannot be mapped. `offset`: of the first byte in the pieces.
std::byte* Map(const std::vector<DmaBufPiece>& pieces, std::uint64_t offset, std::size_t bytes) {
  void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(room);
  std::size_t done = 0;
  for (const auto& piece : pieces) {
    const auto skipped = std::min<std::uint64_t>(offset, piece.bytes);
    offset -= skipped;
    const auto here = std::min<std::uint64_t>(piece.bytes - skipped, bytes - done);
    if (here == 0) continue;
    if (mmap(begin + done, here, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, static_cast<int>(piece.file),
             static_cast<off_t>(piece.offset + skipped)) == MAP_FAILED) {
      break;
    }
    done += here;
  }
  if (done == bytes) return begin;
  munmap(begin, bytes);
  return nullptr;
}

struct Mapped {
  std::byte* begin;
  std::size_t bytes;
};
std::mutex mutex;
std::map<ibv_mr*, Mapped> regions;

ibv_mr* RegisterDmaBuf(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int file,
                       int access) {
  const auto pieces = PiecesOf(file);
  const char* const told = std::getenv("TUTTI_FAKE_GPU_NIC_REFUSES");
  if (pieces.empty() || (told != nullptr && std::strcmp(told, "1") == 0)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  std::byte* const begin = Map(pieces, offset, bytes);
  if (begin == nullptr) {
    errno = EFAULT;
    return nullptr;
  }
  static auto* const register_at =
      InVerbs<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, int)>("ibv_reg_mr_iova", "IBVERBS_1.7");
  ibv_mr* const region = register_at(domain, begin, bytes, address, access);
  if (region == nullptr) {
    munmap(begin, bytes);
    return nullptr;
  }
  const std::lock_guard lock(mutex);
  regions[region] = {begin, bytes};
  return region;
}

int Deregister(ibv_mr* region) {
  static auto* const real = InVerbs<int(ibv_mr*)>("ibv_dereg_mr", "IBVERBS_1.1");
  Mapped mapped{};
  {
    const std::lock_guard lock(mutex);
    if (const auto found = regions.find(region); found != regions.end()) {
      mapped = found->second;
      regions.erase(found);
    }
  }
  const int error = real(region);
  if (mapped.begin != nullptr) munmap(mapped.begin, mapped.bytes);
  return error;
}

}  // namespace

extern "C" void* dlvsym(void* handle, const char* name, const char* version) noexcept {
  if (std::strcmp(name, "ibv_reg_dmabuf_mr") == 0) return reinterpret_cast<void*>(&RegisterDmaBuf);
  if (std::strcmp(name, "ibv_dereg_mr") == 0) return reinterpret_cast<void*>(&Deregister);
  return RealSymbol(handle, name, version);
}
