// Memory shared between processes without a name: a memfd. It vanishes with its last user, whatever happens to them,
// and needs no space in /dev/shm.
//
// Thread-safety: distinct objects may be used from distinct threads.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace tutti {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A mapping of a whole memfd. Ranks of one process share one mapping of a segment, counted in `users`, so that a
// pointer into it means the same to all of them (and to a thread sanitizer).
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // New and zeroed. Throws tuttiSystemError.
  static Segment Create(const std::string& name, std::size_t bytes);
  // Maps another process's segment. Throws tuttiSystemError; tuttiInternalError if it is shorter than `bytes`.
  static Segment Map(const FileDescriptor& fd, std::size_t bytes);
  // Zeroed memory of this process alone, which costs nothing until it is touched. Throws tuttiSystemError.
  static Segment Reserve(std::size_t bytes);
  // One more user of a mapping of this process. REQUIRES: `data` is the data() of a live Segment made by Create().
  static Segment Share(std::byte* data, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const FileDescriptor& fd() const { return fd_; }
  // Takes the page faults of [offset, offset + bytes) now. Best effort.
  static void Populate(const std::byte* begin, std::size_t bytes);

 private:
  void Release();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  FileDescriptor fd_;
  bool counted_ = false;  // one of several users of a mapping of this process
};

}  // namespace tutti
