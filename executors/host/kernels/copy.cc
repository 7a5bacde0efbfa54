#include "executors/host/kernels/copy.h"

#include <algorithm>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tutti::host_kernels {

#if defined(__SSE2__)

void StreamFence() { _mm_sfence(); }

void CopyStreamed(void* destination, const void* source, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  // Sixteen bytes a store: the write-combining buffers make whole lines of them, and wider stores measure no faster.
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const auto* const loads = reinterpret_cast<const __m128i*>(from);
    auto* const stores = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(loads);
    const __m128i b = _mm_loadu_si128(loads + 1);
    const __m128i c = _mm_loadu_si128(loads + 2);
    const __m128i d = _mm_loadu_si128(loads + 3);
    _mm_stream_si128(stores, a);
    _mm_stream_si128(stores + 1, b);
    _mm_stream_si128(stores + 2, c);
    _mm_stream_si128(stores + 3, d);
  }
  std::memcpy(to, from, bytes);
}

#else  // no non-temporal stores, or none that the architecture orders by a fence

void StreamFence() {}

void CopyStreamed(void* destination, const void* source, std::size_t bytes) { std::memcpy(destination, source, bytes); }

#endif

}  // namespace tutti::host_kernels
