// An owned descriptor, which is none of the standard ones. Descriptors 0 to 2 belong to the program even while they are
// closed: what it, or any library, writes to its standard error goes to whatever has number 2.
//
// Thread-safety: distinct objects may be used from distinct threads.
#pragma once

#include <utility>

namespace tutti {

inline constexpr int kStandardDescriptors = 3;

// Returns `fd`, or where it has been moved to if it had a standard number; -1, with errno set and `fd` closed, if it could
// not be moved. A negative `fd` stays.
int MoveFromStandard(int fd);
inline int AboveStandard(int fd) { return fd < 0 || fd >= kStandardDescriptors ? fd : MoveFromStandard(fd); }

class FileDescriptor {
 public:
  FileDescriptor() = default;
  // -1, with errno as it was: there is none.
  explicit FileDescriptor(int fd) : fd_(AboveStandard(fd)) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = other.Release();
    }
    return *this;
  }
  ~FileDescriptor() { Close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Close();
  // The caller owns it from now on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace tutti
