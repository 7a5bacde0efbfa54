#include "executors/host/kernels/simd_target.h"

#include "executors/host/kernels/simd_targets.h"

// clang-format off: the order is Highway's
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "executors/host/kernels/simd_target.cc"
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

const char* NameForTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::host_kernels {

HWY_EXPORT(NameForTarget);

// The kernels are dispatched in the same way, so this names what they use.
std::string_view SimdTarget() { return HWY_DYNAMIC_DISPATCH(NameForTarget)(); }

}  // namespace tutti::host_kernels
#endif
