#include "interop/torch/csrc/devices.h"

#include <c10/core/DeviceType.h>

#include <array>
#include <atomic>

namespace tutti::pytorch {
namespace {

constexpr auto kTypes = static_cast<std::size_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);

// Indexed by type. Written while modules load.
std::array<std::atomic<NativeStream>, kTypes>& Taken() {
  static std::array<std::atomic<NativeStream>, kTypes> taken{};
  return taken;
}

}  // namespace

void TakeDevices(c10::DeviceType type, NativeStream native_stream) {
  Taken().at(static_cast<std::size_t>(type)).store(native_stream, std::memory_order_release);
}

NativeStream NativeStreamOf(c10::DeviceType type) {
  return Taken().at(static_cast<std::size_t>(type)).load(std::memory_order_acquire);
}

std::string NamesOfTakenDevices() {
  std::string names = c10::DeviceTypeName(c10::kCPU, true);
  for (std::size_t type = 0; type < kTypes; ++type) {
    const auto each = static_cast<c10::DeviceType>(type);
    if (NativeStreamOf(each) != nullptr) names += " and " + c10::DeviceTypeName(each, true);
  }
  return names;
}

}  // namespace tutti::pytorch
