#include "testing/fake_gpu/devices.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/environment.h"

namespace tutti::fake_gpu {
namespace {

constexpr int kFirstBus = 0x10;  // the PCI bus of device 0; the others follow
constexpr int kMaxGrid = 65535;

void RequireDevice(CUdevice device) {
  Require(device >= 0 && device < TheEnvironment().devices(), CUDA_ERROR_INVALID_DEVICE);
}

// Instances have the place of their GPU.
int BusOf(CUdevice device) { return kFirstBus + (TheEnvironment().mig ? 0 : NumberOf(device)); }

int Attribute(CUdevice_attribute attribute, CUdevice device) {
  static const std::map<CUdevice_attribute, int> values = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kMaxBlockThreads},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, kMaxBlockThreads},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, kMaxBlockThreads},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, kMaxGrid},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, kMaxGrid},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, kSharedPerBlock},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kSharedPerBlockOptin},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, kSharedPerMultiprocessor},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, kSharedReserved},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, kWarp},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, kMultiprocessorRegisters},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, kMultiprocessorRegisters},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, kMaxMultiprocessorThreads},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, kMaxMultiprocessorBlocks},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1'000'000},         // kHz
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1'000'000},  // kHz
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 512},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
      {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
      {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
  };
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return TheEnvironment().multiprocessors;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return TheEnvironment().capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return TheEnvironment().capability % 10;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: return TheEnvironment().multicast ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      return TheEnvironment().dma_buf != Environment::DmaBuf::none ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      return TheEnvironment().rdma_order ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                                         : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return BusOf(device);
    default: break;
  }
  Require(attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
  const auto found = values.find(attribute);
  return found == values.end() ? 0 : found->second;  // unknown attributes are unsupported
}

CUuuid UuidOf(int number) {
  CUuuid uuid{{'s', 't', 'a', 'n', 'd', 'i', 'n'}};
  std::memcpy(uuid.bytes + sizeof uuid.bytes - sizeof number, &number, sizeof number);
  return uuid;
}

}  // namespace

bool Reaches(CUdevice from, CUdevice to) { return NumberReaches(NumberOf(from), NumberOf(to)); }
bool NumberReaches(int from, int to) { return from == to || TheEnvironment().peers; }

int NumberOf(CUdevice device) { return TheEnvironment().visible[static_cast<std::size_t>(device)]; }

CUdevice DeviceOfNumber(int number) {
  const auto& visible = TheEnvironment().visible;
  const auto found = std::ranges::find(visible, number);
  return found != visible.end() ? static_cast<CUdevice>(found - visible.begin()) : CurrentDevice();
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuInit(unsigned flags) {
  return AnswerUninitialized([&] {
    Require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    Require(TheEnvironment().devices() > 0, CUDA_ERROR_NO_DEVICE);
    SetInitialized();
  });
}

CUresult cuDriverGetVersion(int* version) {
  return AnswerUninitialized([&] {
    Require(version != nullptr, CUDA_ERROR_INVALID_VALUE);
    *version = TheEnvironment().driver_version;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Answer([&] {
    RequireDevice(ordinal);
    *device = ordinal;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return Answer([&] { *count = TheEnvironment().devices(); });
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  return Answer([&] {
    RequireDevice(device);
    Require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
    std::snprintf(name, static_cast<std::size_t>(bytes), "%s",
                  TheEnvironment().mig ? "Tutti fake GPU MIG 1g.10gb" : "Tutti fake GPU");
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return Answer([&] {
    RequireDevice(device);
    *value = Attribute(attribute, device);
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice device) {
  return Answer([&] {
    RequireDevice(device);
    char text[32];
    const int length = std::snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned>(BusOf(device)));
    Require(bytes > length, CUDA_ERROR_INVALID_VALUE);
    std::memcpy(id, text, static_cast<std::size_t>(length) + 1);
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return Answer([&] {
    RequireDevice(device);
    *uuid = UuidOf(NumberOf(device));
  });
}

// The older entry point, whose name <cuda.h> maps to the one above. For an instance it gives the UUID of its GPU.
extern "C" CUresult DeviceGetUuidV1(CUuuid* uuid, CUdevice device) __asm__("cuDeviceGetUuid");
CUresult DeviceGetUuidV1(CUuuid* uuid, CUdevice device) {
  return Answer([&] {
    RequireDevice(device);
    constexpr int kPartitioned = -1;
    *uuid = UuidOf(TheEnvironment().mig ? kPartitioned : NumberOf(device));
  });
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  return Answer([&] {
    RequireDevice(device);
    *bytes = TheEnvironment().memory_bytes;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return Answer([&] {
    RequireDevice(device);
    RequireDevice(peer);
    *can = device != peer && Reaches(device, peer) ? 1 : 0;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
  return Answer([&] {
    RequireDevice(device);
    RequireDevice(peer);
    Require(device != peer, CUDA_ERROR_INVALID_DEVICE);
    switch (attribute) {
      case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: *value = Reaches(device, peer) ? 1 : 0; return;
      case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = Reaches(device, peer) && TheEnvironment().nvlink ? 1 : 0;
        return;
      default: *value = 0;
    }
  });
}
