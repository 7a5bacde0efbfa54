// Contexts: the device that each thread uses.
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/memory/memory.h"

namespace tutti::fake_gpu {
namespace {

// A context's handle is its device's number, offset so that it is never null.
constexpr std::uintptr_t kFirstContext = 0x40;

// A thread's contexts. Trivial, because a program's static destructors call the driver after the thread's objects have
// been destroyed.
struct Stack {
  static constexpr std::size_t kDeepest = 64;
  std::array<CUcontext, kDeepest> contexts;  // null may have been set
  std::size_t depth;

  bool empty() const { return depth == 0; }
  CUcontext top() const { return contexts[depth - 1]; }
  void Pop() { --depth; }
  void Push(CUcontext context) {
    Require(depth < kDeepest, CUDA_ERROR_OUT_OF_MEMORY);
    contexts[depth++] = context;
  }
};
static_assert(std::is_trivially_destructible_v<Stack>);

thread_local Stack current = {};

struct Uses {
  std::mutex mutex;
  std::vector<int> retained = std::vector<int>(static_cast<std::size_t>(TheEnvironment().devices()));
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
  Require(number < static_cast<std::uintptr_t>(TheEnvironment().devices()), CUDA_ERROR_INVALID_CONTEXT);
  auto& uses = TheUses();
  const std::lock_guard lock(uses.mutex);
  Require(uses.retained[number] > 0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return static_cast<CUdevice>(number);
}

CUdevice CurrentDevice() {
  Require(!current.empty() && current.top() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return DeviceOf(current.top());
}

std::vector<CUdevice> PeersOf(CUdevice device) {
  auto& uses = TheUses();
  const std::lock_guard lock(uses.mutex);
  std::vector<CUdevice> peers;
  for (const auto& [from, to] : uses.peers) {
    if (to == device) peers.push_back(from);
  }
  return peers;
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Answer([&] {
    Require(device >= 0 && device < TheEnvironment().devices(), CUDA_ERROR_INVALID_DEVICE);
    Require(!TheEnvironment().busy, CUDA_ERROR_DEVICE_UNAVAILABLE);
    auto& uses = TheUses();
    const std::lock_guard lock(uses.mutex);
    const bool made = uses.retained[static_cast<std::size_t>(device)]++ == 0;
    if (made) std::this_thread::sleep_for(std::chrono::milliseconds(TheEnvironment().context_ms));
    *context = ContextOf(device);
  });
}

// Everything made in the context stays, except access to peers: the fake GPU cannot tell a forgotten stream from one in
// use elsewhere.
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return Answer([&] {
    Require(device >= 0 && device < TheEnvironment().devices(), CUDA_ERROR_INVALID_DEVICE);
    auto& uses = TheUses();
    const std::lock_guard lock(uses.mutex);
    auto& retained = uses.retained[static_cast<std::size_t>(device)];
    Require(retained > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--retained > 0) return;
    std::erase_if(uses.peers, [&](const auto& pair) {
      const bool ends = pair.first == device || pair.second == device;
      if (ends) Ranges::Instance().SetPeerAccess(pair.first, pair.second, false);
      return ends;
    });
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return Answer([&] {
    Require(device >= 0 && device < TheEnvironment().devices(), CUDA_ERROR_INVALID_DEVICE);
    auto& uses = TheUses();
    const std::lock_guard lock(uses.mutex);
    *flags = CU_CTX_SCHED_AUTO;
    *active = uses.retained[static_cast<std::size_t>(device)] > 0 ? 1 : 0;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return Answer([&] { *context = current.empty() ? nullptr : current.top(); });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return Answer([&] {
    if (context != nullptr) DeviceOf(context);
    if (!current.empty()) current.Pop();
    if (context != nullptr) current.Push(context);
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return Answer([&] {
    DeviceOf(context);
    current.Push(context);
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return Answer([&] {
    Require(!current.empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (context != nullptr) *context = current.top();
    current.Pop();
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
    Ranges::Instance().SetPeerAccess(from, to, true);
  });
}
