// The loops that measure memory bandwidth. Pure functions; thread-safe.
#pragma once

#include <cstddef>

namespace tutti::bench {

// REQUIRES for all: buffers aligned to 64 bytes, not overlapping; `count` a multiple of 256.
// d = a
void CopyFloats(const float* a, float* d, std::size_t count);
void CopyFloatsNonTemporal(const float* a, float* d, std::size_t count);
// d = a + b
void AddFloats(const float* a, const float* b, float* d, std::size_t count);
void AddFloatsNonTemporal(const float* a, const float* b, float* d, std::size_t count);

}  // namespace tutti::bench
