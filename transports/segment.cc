#include "transports/segment.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "base/error.h"

namespace tutti {
namespace {

// In front of the data, in a page of its own, so that data() stays page-aligned. Counts the users inside the creating
// process; a process that maps the descriptor has a mapping of its own and does not count.
constexpr std::size_t kPrefix = 4096;
using Users = std::atomic<std::uint32_t>;

std::byte* MapWhole(int fd, std::size_t bytes) {
  void* const base = mmap(nullptr, bytes + kPrefix, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) ThrowErrno(fmt::format("mapping {} bytes of shared memory", bytes));
  return static_cast<std::byte*>(base) + kPrefix;
}

Users& UsersOf(std::byte* data) { return *reinterpret_cast<Users*>(data - kPrefix); }

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  std::swap(counted_, other.counted_);
  return *this;
}

Segment::~Segment() { Release(); }

void Segment::Release() {
  if (data_ == nullptr) return;
  // acq_rel: whoever unmaps must see that the other users are done with it.
  if (!counted_ || UsersOf(data_).fetch_sub(1, std::memory_order_acq_rel) == 1)
    munmap(data_ - kPrefix, bytes_ + kPrefix);
  data_ = nullptr;
}

Segment Segment::Create(const std::string& name, std::size_t bytes) {
  Segment segment;
  segment.fd_ = FileDescriptor(memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!segment.fd_) ThrowErrno("memfd_create");
  if (ftruncate(segment.fd_.get(), static_cast<off_t>(bytes + kPrefix)) != 0) {
    ThrowErrno(fmt::format("sizing shared memory to {} bytes", bytes));
  }
  segment.data_ = MapWhole(segment.fd_.get(), bytes);
  segment.bytes_ = bytes;
  segment.counted_ = true;
  new (&UsersOf(segment.data_)) Users(1);
  return segment;
}

Segment Segment::Map(const FileDescriptor& fd, std::size_t bytes) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) ThrowErrno("fstat of a peer's shared memory");
  // A shorter file would turn the first access past its end into SIGBUS.
  if (static_cast<std::size_t>(status.st_size) < bytes + kPrefix) {
    Throw(tuttiInternalError, "a peer's shared memory has {} bytes where {} were agreed", status.st_size,
          bytes + kPrefix);
  }
  Segment segment;
  segment.data_ = MapWhole(fd.get(), bytes);
  segment.bytes_ = bytes;
  return segment;
}

Segment Segment::Reserve(std::size_t bytes) {
  void* const base =
      mmap(nullptr, bytes + kPrefix, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) ThrowErrno(fmt::format("reserving {} bytes of address space", bytes));
  Segment segment;
  segment.data_ = static_cast<std::byte*>(base) + kPrefix;
  segment.bytes_ = bytes;
  return segment;
}

Segment Segment::Share(std::byte* data, std::size_t bytes) {
  UsersOf(data).fetch_add(1, std::memory_order_relaxed);  // the caller knows of a live user; nothing to order
  Segment segment;
  segment.data_ = data;
  segment.bytes_ = bytes;
  segment.counted_ = true;
  return segment;
}

void Segment::Populate(const std::byte* begin, std::size_t bytes) {
  const auto page = reinterpret_cast<std::uintptr_t>(begin) & ~(std::uintptr_t{4096} - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  // Without MADV_POPULATE_WRITE (Linux < 5.14) the faults simply come later.
  madvise(reinterpret_cast<void*>(page), end - page, MADV_POPULATE_WRITE);
}

}  // namespace tutti
