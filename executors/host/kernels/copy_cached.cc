// Large copies inside the caches, with the widest vectors there are and the destination's vectors aligned.
//
// Not the C library's memcpy: from a few KiB on it uses `rep movsb`, which on AMD Zen 3 falls to 3 GB/s when the
// destination lies a few bytes behind the source modulo 4 KiB - as two buffers from one malloc often do.
#include "executors/host/kernels/simd_targets.h"

// clang-format off: the order is Highway's
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "executors/host/kernels/copy_cached.cc"
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include "executors/host/kernels/copy.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

// REQUIRES: bytes >= kMinVectorCopy.
void CopyCachedForTarget(void* destination, const void* source, std::size_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> tag;
  const std::size_t vector = hn::Lanes(tag);
  auto* to = static_cast<std::uint8_t*>(destination);
  const auto* from = static_cast<const std::uint8_t*>(source);
  auto* const end = to + bytes;

  hn::StoreU(hn::LoadU(tag, from), tag, to);
  const std::size_t head = vector - reinterpret_cast<std::uintptr_t>(to) % vector;
  to += head;
  from += head;
  for (; to + 4 * vector <= end; to += 4 * vector, from += 4 * vector) {
    const auto a = hn::LoadU(tag, from);
    const auto b = hn::LoadU(tag, from + vector);
    const auto c = hn::LoadU(tag, from + 2 * vector);
    const auto d = hn::LoadU(tag, from + 3 * vector);
    hn::Store(a, tag, to);
    hn::Store(b, tag, to + vector);
    hn::Store(c, tag, to + 2 * vector);
    hn::Store(d, tag, to + 3 * vector);
  }
  for (; to + vector <= end; to += vector, from += vector) hn::Store(hn::LoadU(tag, from), tag, to);
  // The last vector overlaps what is done already.
  const auto left = static_cast<std::size_t>(end - to);
  if (left != 0) hn::StoreU(hn::LoadU(tag, from + left - vector), tag, end - vector);
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::host_kernels {

HWY_EXPORT(CopyCachedForTarget);

void CopyCached(void* destination, const void* source, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(CopyCachedForTarget)(destination, source, bytes);
}

}  // namespace tutti::host_kernels
#endif
