// Contexts: the device that each thread uses.
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "testing/fake_cuda/call.h"
#include "testing/fake_cuda/devices.h"
#include "testing/fake_cuda/environment.h"

namespace tutti::standin {
namespace {

// A context's handle is its device's number, offset so that it is never null.
constexpr std::uintptr_t kFirstContext = 0x40;

thread_local std::vector<CUcontext> current;  // the top is last; null may have been set

struct Uses {
  std::mutex mutex;
  std::vector<int> retained = std::vector<int>(static_cast<std::size_t>(TheEnvironment().devices));
  std::set<std::pair<CUdevice, CUdevice>> peers;  // from a device to another
};

Uses& TheUses() {
  static auto* uses = new Uses;
  return *uses;
}

}  // namespace

CUcontext ContextOf(CUdevice device) {
  return reinterpret_cast<CUcontext>(kFirstContext + static_cast<std::uintptr_t>(device));
}

CUdevice DeviceOf(CUcontext context) {
  const auto number = reinterpret_cast<std::uintptr_t>(context) - kFirstContext;
  Require(number < static_cast<std::uintptr_t>(TheEnvironment().devices), CUDA_ERROR_INVALID_CONTEXT);
  auto& uses = TheUses();
  const std::lock_guard lock(uses.mutex);
  Require(uses.retained[number] > 0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return static_cast<CUdevice>(number);
}

CUdevice CurrentDevice() {
  Require(!current.empty() && current.back() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return DeviceOf(current.back());
}

}  // namespace tutti::standin

using namespace tutti::standin;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Answer([&] {
    Require(device >= 0 && device < TheEnvironment().devices, CUDA_ERROR_INVALID_DEVICE);
    Require(!TheEnvironment().busy, CUDA_ERROR_DEVICE_UNAVAILABLE);
    auto& uses = TheUses();
    const std::lock_guard lock(uses.mutex);
    const bool made = uses.retained[static_cast<std::size_t>(device)]++ == 0;
    if (made) std::this_thread::sleep_for(std::chrono::milliseconds(TheEnvironment().context_ms));
    *context = ContextOf(device);
  });
}

// Everything made in the context stays, except access to peers: the stand-in cannot tell a forgotten stream from one in
// use elsewhere.
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return Answer([&] {
    Require(device >= 0 && device < TheEnvironment().devices, CUDA_ERROR_INVALID_DEVICE);
    auto& uses = TheUses();
    const std::lock_guard lock(uses.mutex);
    auto& retained = uses.retained[static_cast<std::size_t>(device)];
    Require(retained > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--retained > 0) return;
    std::erase_if(uses.peers, [&](const auto& pair) { return pair.first == device || pair.second == device; });
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return Answer([&] { *context = current.empty() ? nullptr : current.back(); });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return Answer([&] {
    if (context != nullptr) DeviceOf(context);
    if (!current.empty()) current.pop_back();
    if (context != nullptr) current.push_back(context);
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return Answer([&] {
    DeviceOf(context);
    current.push_back(context);
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return Answer([&] {
    Require(!current.empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (context != nullptr) *context = current.back();
    current.pop_back();
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return Answer([&] { *device = CurrentDevice(); });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return Answer([&] {
    Require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    const CUdevice from = CurrentDevice();
    const CUdevice to = DeviceOf(peer);
    Require(from != to, CUDA_ERROR_INVALID_DEVICE);
    Require(Reaches(from, to), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    auto& uses = TheUses();
    const std::lock_guard lock(uses.mutex);
    Require(uses.peers.emplace(from, to).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  });
}
