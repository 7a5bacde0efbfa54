// The instruction sets that the host executor's kernels are compiled for, chosen among at run time. To be included
// before any Highway header: SSE4, AVX2 and AVX-512 on x86 beside a plain fallback; NEON on ARM. Each further one costs
// about a fifth of a megabyte.
//
// Also each type's part of SelectReduce().
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include "executors/host/kernels/reduce.h"

namespace tutti::host_kernels {

// REQUIRES: type is among those that the name says; op as for SelectReduce.
ReduceFunction SelectReduceInteger(tuttiDataType_t type, tuttiRedOp_t op);
ReduceFunction SelectReduceFloat(tuttiDataType_t type, tuttiRedOp_t op);    // fp32, fp64
ReduceFunction SelectReduceFloat16(tuttiDataType_t type, tuttiRedOp_t op);  // float16, bfloat16
ReduceFunction SelectReduceFloat8(tuttiDataType_t type, tuttiRedOp_t op);   // float8e4m3, float8e5m2

}  // namespace tutti::host_kernels
