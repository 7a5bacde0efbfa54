// The device types, besides the host, whose tensors the backend accepts: PyTorch types whose memory the library treats
// as CUDA's. PyTorch's device-independent interfaces handle their streams and events; only the library's own calls need
// the driver's stream.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <tutti/tutti.h>

#include <string>

namespace tutti::pytorch {

// Returns the cudaStream_t behind a PyTorch stream.
using NativeStream = tuttiStream_t (*)(const c10::Stream& stream);

// From now on the backend accepts tensors on devices of this type.
void TakeDevices(c10::DeviceType type, NativeStream native_stream);
// Null: such devices are not accepted.
NativeStream NativeStreamOf(c10::DeviceType type);
// "cpu and cuda"
std::string NamesOfTakenDevices();

}  // namespace tutti::pytorch
