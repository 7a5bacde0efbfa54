// The devices, beside the host, on which tensors may lie: types of PyTorch whose memory is CUDA's for the library. What
// there is to do with their streams and events goes through PyTorch's interfaces for all devices; only the library's
// own calls want a stream as the driver knows it.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <tutti/tutti.h>

#include <string>

namespace tutti::pytorch {

// The cudaStream_t behind a stream of PyTorch.
using NativeStream = tuttiStream_t (*)(const c10::Stream& stream);

// From now on tensors on devices of this type are taken.
void TakeDevices(c10::DeviceType type, NativeStream native_stream);
// Null: such devices are not taken.
NativeStream NativeStreamOf(c10::DeviceType type);
// "cpu and cuda"
std::string NamesOfTakenDevices();

}  // namespace tutti::pytorch
