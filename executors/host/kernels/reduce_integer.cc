// Reductions of integers.
#include "executors/host/kernels/reduce_targets.h"

// clang-format off: the order is Highway's
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "executors/host/kernels/reduce_integer.cc"
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include "executors/host/kernels/reduce_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

ReduceFunction ReduceIntegerForTarget(tuttiDataType_t type, tuttiRedOp_t op) {
  return FunctionOf<Group::integer>(type, op);
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::host_kernels {

HWY_EXPORT(ReduceIntegerForTarget);

ReduceFunction SelectReduceInteger(tuttiDataType_t type, tuttiRedOp_t op) {
  return HWY_DYNAMIC_DISPATCH(ReduceIntegerForTarget)(type, op);
}

}  // namespace tutti::host_kernels
#endif
