// Each type's part of SelectReduce(). To be included before any Highway header.
#pragma once

#include "base/numbers/datatype.h"
#include "executors/host/kernels/reduce.h"
#include "executors/host/kernels/simd_targets.h"

namespace tutti::host_kernels {

// Types whose kernels are in one file.
enum class Group { integer, floating, float16, float8 };

template <typename Element>
constexpr Group GroupOf() {
  if (std::is_integral_v<Element>) return Group::integer;
  if (std::is_floating_point_v<Element>) return Group::floating;
  return sizeof(Storage<Element>) == 1 ? Group::float8 : Group::float16;
}

// REQUIRES: type is of the group that the name says; op as for SelectReduce.
ReduceFunction SelectReduceInteger(tuttiDataType_t type, tuttiRedOp_t op);
ReduceFunction SelectReduceFloat(tuttiDataType_t type, tuttiRedOp_t op);
ReduceFunction SelectReduceFloat16(tuttiDataType_t type, tuttiRedOp_t op);
ReduceFunction SelectReduceFloat8(tuttiDataType_t type, tuttiRedOp_t op);

}  // namespace tutti::host_kernels
