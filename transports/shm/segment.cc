#include "transports/shm/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace tutti::shm {
namespace {

#ifndef MFD_NOEXEC_SEAL
constexpr unsigned kNoExecute = 8U;  // Linux 6.3
#else
constexpr unsigned kNoExecute = MFD_NOEXEC_SEAL;
#endif
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

std::shared_ptr<Mapping> MapWhole(int fd, std::size_t bytes) {
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) ThrowErrno(fmt::format("cannot map {} bytes of shared memory", bytes));
  return std::make_shared<Mapping>(static_cast<std::byte*>(base), bytes);
}

// Beyond this limit the kernel does not just refuse: it ends the process by SIGXFSZ.
void RequireFileSize(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return;
  Throw(tuttiSystemError,
        "shared memory needs a file of {} bytes, but the limit of this process is {} (raise it with ulimit -f)", bytes,
        limit.rlim_cur);
}

}  // namespace

Mapping::~Mapping() { munmap(data_, bytes_); }

Segment Segment::Create(const std::string& name, std::size_t bytes) {
  RequireFileSize(bytes);
  Segment segment;
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  segment.fd_ = FileDescriptor(memfd_create(name.c_str(), kFlags | kNoExecute));
  if (!segment.fd_ && errno == EINVAL) segment.fd_ = FileDescriptor(memfd_create(name.c_str(), kFlags));
  if (!segment.fd_) ThrowErrno("memfd_create");
  const int fd = segment.fd_.get();
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    ThrowErrno(fmt::format("cannot size shared memory to {} bytes", bytes));
  }
  if (fchmod(fd, kOwnerOnly) != 0) ThrowErrno("cannot close shared memory to other users");
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) ThrowErrno("cannot seal shared memory");
  segment.mapping_ = MapWhole(fd, bytes);
  return segment;
}

Segment Segment::Map(const FileDescriptor& fd, std::size_t bytes) {
  // If the file is too short, or becomes so, an access past its end raises SIGBUS. The seal is checked before the size:
  // a sealed file keeps its size. Only a memfd can be sealed, so this is one.
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    Throw(tuttiInternalError, "a peer's shared memory is not sealed, so the peer could still shrink it");
  }
  // The owner of a memfd of huge pages can give pages back, and an access to one raises SIGBUS while the system has no
  // other huge page. Ordinary pages come anew.
  struct statfs system {};
  if (fstatfs(fd.get(), &system) != 0) ThrowErrno("cannot get the kind of a peer's shared memory");
  if (system.f_type == HUGETLBFS_MAGIC) {
    Throw(tuttiInternalError, "a peer's shared memory is of huge pages, which the peer could still take away");
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) ThrowErrno("cannot get the size of a peer's shared memory");
  if (static_cast<std::size_t>(status.st_size) < bytes) {
    Throw(tuttiInternalError, "a peer's shared memory has {} bytes, but {} were agreed", status.st_size, bytes);
  }
  return Segment(MapWhole(fd.get(), bytes));
}

Segment Segment::Reserve(std::size_t bytes) {
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) ThrowErrno(fmt::format("cannot reserve {} bytes of address space", bytes));
  return Segment(std::make_shared<Mapping>(static_cast<std::byte*>(base), bytes));
}

void Segment::Populate(const std::byte* begin, std::size_t bytes) {
  // Some kernels for ARM have pages of 16 or 64 KiB, and refuse an address inside of one.
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto page = reinterpret_cast<std::uintptr_t>(begin) & ~(page_bytes - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  // Without MADV_POPULATE_WRITE (Linux < 5.14) the faults simply come later.
  madvise(reinterpret_cast<void*>(page), end - page, MADV_POPULATE_WRITE);
}

}  // namespace tutti::shm
