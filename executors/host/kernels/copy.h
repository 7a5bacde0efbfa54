// Copies of bytes: small ones without a call, large ones by vectors, and past the caches when asked.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <cstddef>
#include <cstring>

namespace tutti::host_kernels {

// Makes streamed writes of this thread visible before its later writes. Call it between the last streamed copy or
// reduction and the flag that publishes it; a release store alone does not order non-temporal stores on x86.
void StreamFence();

// Below this, streamed copies are plain ones: the write-combining buffers' way to memory costs more than a cache
// line's.
inline constexpr std::size_t kMinStreamedBytes = 1024;

// CopyBytes out of line. Non-temporal stores for the destination's whole cache lines.
void CopyStreamed(void* destination, const void* source, std::size_t bytes);

// CopyBytes out of line, for copies that stay in the caches. REQUIRES: bytes >= kMinVectorCopy.
void CopyCached(void* destination, const void* source, std::size_t bytes);
// From here on our own loop is faster than memcpy.
inline constexpr std::size_t kMinVectorCopy = 1024;

namespace copy_detail {

// kPart <= bytes <= 2 * kPart, by two parts that may overlap.
template <std::size_t kPart>
inline void CopyTwoParts(void* destination, const void* source, std::size_t bytes) {
  struct Part {
    std::byte bytes[kPart];
  };
  const auto* const from = static_cast<const std::byte*>(source);
  auto* const to = static_cast<std::byte*>(destination);
  Part first, last;
  std::memcpy(&first, from, kPart);
  std::memcpy(&last, from + bytes - kPart, kPart);
  std::memcpy(to, &first, kPart);
  std::memcpy(to + bytes - kPart, &last, kPart);
}

}  // namespace copy_detail

// REQUIRES: the ranges do not overlap, unless they are the same; pointers may be null when bytes == 0.
inline void CopyBytes(void* destination, const void* source, std::size_t bytes, bool streamed) {
  if (bytes <= 32) {
    if (bytes >= 16) return copy_detail::CopyTwoParts<16>(destination, source, bytes);
    if (bytes >= 8) return copy_detail::CopyTwoParts<8>(destination, source, bytes);
    if (bytes >= 4) return copy_detail::CopyTwoParts<4>(destination, source, bytes);
    if (bytes >= 2) return copy_detail::CopyTwoParts<2>(destination, source, bytes);
    if (bytes == 1) *static_cast<std::byte*>(destination) = *static_cast<const std::byte*>(source);
    return;
  }
  if (streamed && bytes >= kMinStreamedBytes) {
    CopyStreamed(destination, source, bytes);
  } else if (bytes >= kMinVectorCopy) {
    CopyCached(destination, source, bytes);
  } else {
    std::memcpy(destination, source, bytes);
  }
}

}  // namespace tutti::host_kernels
