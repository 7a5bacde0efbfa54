// Each type's part of SelectReduce(). To be included before any Highway header.
#pragma once

#include "executors/host/kernels/reduce.h"
#include "executors/host/kernels/simd_targets.h"

namespace tutti::host_kernels {

// REQUIRES: type is among those that the name says; op as for SelectReduce.
ReduceFunction SelectReduceInteger(tuttiDataType_t type, tuttiRedOp_t op);
ReduceFunction SelectReduceFloat(tuttiDataType_t type, tuttiRedOp_t op);    // fp32, fp64
ReduceFunction SelectReduceFloat16(tuttiDataType_t type, tuttiRedOp_t op);  // float16, bfloat16
ReduceFunction SelectReduceFloat8(tuttiDataType_t type, tuttiRedOp_t op);   // float8e4m3, float8e5m2

}  // namespace tutti::host_kernels
