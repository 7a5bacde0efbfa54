// Devices, and the context that is current in a thread. A device has one context, its primary one.
#pragma once

#include <cuda.h>

#include <vector>

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
bool NumberReaches(int from, int to);  // the same of devices by NumberOf
// The devices with access to this one's memory, for which this process has called cuCtxEnablePeerAccess.
std::vector<CUdevice> PeersOf(CUdevice device);
// A device's number in the machine, which all processes share; and the device of that number. Memory of a device that
// this process does not see counts as the current one's.
int NumberOf(CUdevice device);
CUdevice DeviceOfNumber(int number);

}  // namespace tutti::fake_gpu
