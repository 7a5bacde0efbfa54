// Memory shared between processes without a name: a memfd. It vanishes with its last user, whatever happens to them,
// and needs no space in /dev/shm. Its file belongs to its user alone, and is sealed: no process can make it shorter or
// longer, so a mapping of it never faults because of what another process does.
//
// Thread-safety: distinct objects may be used from distinct threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/file_descriptor.h"

namespace tutti::shm {

// Memory that this process has mapped, until the last owner goes.
class Mapping {
 public:
  // REQUIRES: [data, data + bytes) was mapped, and no other code unmaps it.
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

// A mapping of a whole memfd. Ranks of one process share one mapping of a segment, so that a pointer into it means the
// same to all of them (and to a thread sanitizer).
class Segment {
 public:
  Segment() = default;
  // Shares a mapping of this process.
  explicit Segment(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

  // New and zeroed. Throws tuttiSystemError.
  static Segment Create(const std::string& name, std::size_t bytes);
  // Maps another process's segment. Throws tuttiSystemError; tuttiInternalError if it is shorter than `bytes`, or if
  // its owner could still make it so.
  static Segment Map(const FileDescriptor& fd, std::size_t bytes);
  // Zeroed memory of this process alone, which costs nothing until it is touched. Throws tuttiSystemError.
  static Segment Reserve(std::size_t bytes);

  std::byte* data() const { return mapping_ ? mapping_->data() : nullptr; }
  std::size_t bytes() const { return mapping_ ? mapping_->bytes() : 0; }
  const std::shared_ptr<Mapping>& mapping() const { return mapping_; }
  // The descriptor of a segment that was made here, until it is dropped.
  const FileDescriptor& fd() const { return fd_; }
  // The memory stays, but can be given to no other process any more.
  void DropDescriptor() { fd_ = FileDescriptor(); }
  // Takes the page faults of [offset, offset + bytes) now. Best effort.
  static void Populate(const std::byte* begin, std::size_t bytes);

 private:
  std::shared_ptr<Mapping> mapping_;
  FileDescriptor fd_;
};

}  // namespace tutti::shm
