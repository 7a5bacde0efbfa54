// A buffer whose elements do not lie one behind the other: a tensor's, or a part of one's. What moves is its *packed*
// bytes, the elements in row-major order; here is where each of them lies, so that nobody has to pack them.
//
// Thread-safety: value types, immutable but for the cursor.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace tutti {

// One dimension of a tensor, in elements or bytes as its user says.
struct StridedDim {
  std::size_t size = 1;
  std::size_t stride = 1;  // from an index to the next
};

class Strided {
 public:
  // Eight of a tensor, and the blocks of the ranks.
  static constexpr std::size_t kMostDims = 9;

  Strided() = default;
  // `dims`, the outermost first, in elements of `element_bytes`. Neighbours that are one piece become one dimension.
  // REQUIRES: no size is 0; at most kMostDims of them.
  Strided(std::span<const StridedDim> dims, std::size_t element_bytes);

  // Packed bytes are where they are.
  bool dense() const { return outer_ == 0; }
  // Bytes that lie behind each other, everywhere.
  std::size_t run_bytes() const { return run_; }

 private:
  friend class StridedCursor;
  std::array<StridedDim, kMostDims> dims_{};  // the outer ones, innermost first, in bytes
  std::size_t outer_ = 0;
  std::size_t run_ = 0;
};

// Walks through packed bytes.
class StridedCursor {
 public:
  StridedCursor() = default;
  // REQUIRES: `packed` is less than the buffer's packed bytes. The buffer outlives the cursor.
  StridedCursor(const Strided& buffer, std::size_t packed);

  // Bytes from the buffer's start to where the cursor's byte lies.
  std::size_t place() const { return place_ + in_run_; }
  // So many bytes lie behind each other from here on.
  std::size_t left() const { return buffer_->run_ - in_run_; }
  // REQUIRES: bytes <= left(). May go past the last byte, and is of no use then.
  void Advance(std::size_t bytes);

 private:
  const Strided* buffer_ = nullptr;
  std::array<std::size_t, Strided::kMostDims> index_{};  // as Strided::dims_
  std::size_t place_ = 0;                                // of the run
  std::size_t in_run_ = 0;
};

}  // namespace tutti
