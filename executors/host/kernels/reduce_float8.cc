// Reductions of the 8-bit floats.
#include "executors/host/kernels/reduce_targets.h"

// clang-format off: the order is Highway's
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "executors/host/kernels/reduce_float8.cc"
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include "executors/host/kernels/reduce_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

ReduceFunction ReduceFloat8ForTarget(tuttiDataType_t type, tuttiRedOp_t op) {
  return FunctionOf<Group::float8>(type, op);
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::host_kernels {

HWY_EXPORT(ReduceFloat8ForTarget);

ReduceFunction SelectReduceFloat8(tuttiDataType_t type, tuttiRedOp_t op) {
  return HWY_DYNAMIC_DISPATCH(ReduceFloat8ForTarget)(type, op);
}

}  // namespace tutti::host_kernels
#endif
