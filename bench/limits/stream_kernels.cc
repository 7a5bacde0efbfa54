#include "bench/limits/stream_kernels.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/limits/stream_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tutti::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

// Four vectors at a time keep enough loads in flight for one core to fill its memory queue.
template <typename Load, typename Store>
HWY_INLINE void Unrolled(std::size_t count, Load load, Store store) {
  const std::size_t lanes = hn::Lanes(Floats());
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    const auto x0 = load(i);
    const auto x1 = load(i + lanes);
    const auto x2 = load(i + 2 * lanes);
    const auto x3 = load(i + 3 * lanes);
    store(x0, i);
    store(x1, i + lanes);
    store(x2, i + 2 * lanes);
    store(x3, i + 3 * lanes);
  }
}

void CopyNonTemporal(const float* HWY_RESTRICT a, float* HWY_RESTRICT d, std::size_t count) {
  const Floats f;
  Unrolled(
      count, [&](std::size_t i) HWY_ATTR { return hn::Load(f, a + i); },
      [&](auto x, std::size_t i) HWY_ATTR { hn::Stream(x, f, d + i); });
  hwy::FlushStream();
}

void Add(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT d, std::size_t count) {
  const Floats f;
  Unrolled(
      count, [&](std::size_t i) HWY_ATTR { return hn::Add(hn::Load(f, a + i), hn::Load(f, b + i)); },
      [&](auto x, std::size_t i) HWY_ATTR { hn::Store(x, f, d + i); });
}

void AddNonTemporal(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT d,
                    std::size_t count) {
  const Floats f;
  Unrolled(
      count, [&](std::size_t i) HWY_ATTR { return hn::Add(hn::Load(f, a + i), hn::Load(f, b + i)); },
      [&](auto x, std::size_t i) HWY_ATTR { hn::Stream(x, f, d + i); });
  hwy::FlushStream();
}

}  // namespace tutti::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::bench {

HWY_EXPORT(CopyNonTemporal);
HWY_EXPORT(Add);
HWY_EXPORT(AddNonTemporal);

void CopyFloats(const float* a, float* d, std::size_t count) { std::memcpy(d, a, count * sizeof(float)); }

void CopyFloatsNonTemporal(const float* a, float* d, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(CopyNonTemporal)(a, d, count);
}

void AddFloats(const float* a, const float* b, float* d, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(Add)(a, b, d, count);
}

void AddFloatsNonTemporal(const float* a, const float* b, float* d, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(AddNonTemporal)(a, b, d, count);
}

}  // namespace tutti::bench
#endif
