// The instruction sets that the host executor's kernels are compiled for, chosen among at run time. To be included
// before any Highway header: SSE4, AVX2 and AVX-512 on x86 beside a plain fallback; NEON on ARM. Each further one costs
// about a fifth of a megabyte.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
