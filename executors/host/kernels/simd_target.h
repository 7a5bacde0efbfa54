// Which of its compiled instruction sets the kernels use on this processor.
//
// Thread-safety: a pure function of the processor.
#pragma once

#include <string_view>

namespace tutti::host_kernels {

// Highway's name: "AVX3" (AVX-512), "AVX2", "SSE4", "NEON", or "SCALAR" or "EMU128" for plain code.
std::string_view SimdTarget();

}  // namespace tutti::host_kernels
