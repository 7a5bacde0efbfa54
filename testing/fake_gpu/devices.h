// Devices, and the context that is current in a thread. A device has one context, its primary one.
#pragma once

#include <cuda.h>

namespace tutti::fake_gpu {

inline constexpr int kWarp = 32;
inline constexpr int kMaxBlockThreads = 1024;
inline constexpr int kMaxMultiprocessorThreads = 2048;
inline constexpr int kMaxMultiprocessorBlocks = 32;
inline constexpr int kMultiprocessorRegisters = 65536;
inline constexpr int kThreadRegisters = 128;  // of any kernel: as many as the library's have
inline constexpr int kSharedPerMultiprocessor = 228 << 10;
inline constexpr int kSharedPerBlock = 48 << 10;        // without asking
inline constexpr int kSharedPerBlockOptin = 227 << 10;  // having asked
inline constexpr int kSharedReserved = 1 << 10;         // of each block

// The device of the calling thread's current context.
CUdevice CurrentDevice();
CUcontext ContextOf(CUdevice device);
CUdevice DeviceOf(CUcontext context);
bool Reaches(CUdevice from, CUdevice to);

}  // namespace tutti::fake_gpu
