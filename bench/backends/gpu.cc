#include "bench/backends/gpu.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>

namespace tutti::bench {
namespace {

using Pointer = std::uint64_t;  // CUdeviceptr

// The part of the driver's interface that the bench needs; numbers and types are those of its ABI.
struct Driver {
  int (*cuInit)(unsigned) = nullptr;
  int (*cuDeviceGetCount)(int*) = nullptr;
  int (*cuDriverGetVersion)(int*) = nullptr;
  int (*cuDeviceGetName)(char*, int, int) = nullptr;
  int (*cuDeviceGetAttribute)(int*, int, int) = nullptr;
  int (*cuDeviceTotalMem_v2)(std::size_t*, int) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void**, int) = nullptr;
  int (*cuDevicePrimaryCtxRelease_v2)(int) = nullptr;
  int (*cuCtxSetCurrent)(void*) = nullptr;
  int (*cuMemAlloc_v2)(Pointer*, std::size_t) = nullptr;
  int (*cuMemFree_v2)(Pointer) = nullptr;
  int (*cuMemcpyHtoDAsync_v2)(Pointer, const void*, std::size_t, GpuStream) = nullptr;
  int (*cuMemcpyDtoHAsync_v2)(void*, Pointer, std::size_t, GpuStream) = nullptr;
  int (*cuMemcpyDtoDAsync_v2)(Pointer, Pointer, std::size_t, GpuStream) = nullptr;
  int (*cuStreamCreate)(GpuStream*, unsigned) = nullptr;
  int (*cuStreamDestroy_v2)(GpuStream) = nullptr;
  int (*cuStreamSynchronize)(GpuStream) = nullptr;
  int (*cuStreamWaitEvent)(GpuStream, GpuEvent, unsigned) = nullptr;
  int (*cuStreamBeginCapture_v2)(GpuStream, int) = nullptr;
  int (*cuStreamEndCapture)(GpuStream, void**) = nullptr;
  int (*cuGraphInstantiateWithFlags)(void**, void*, unsigned long long) = nullptr;
  int (*cuGraphLaunch)(void*, GpuStream) = nullptr;
  int (*cuGraphDestroy)(void*) = nullptr;
  int (*cuGraphExecDestroy)(void*) = nullptr;
  int (*cuEventCreate)(GpuEvent*, unsigned) = nullptr;
  int (*cuEventRecord)(GpuEvent, GpuStream) = nullptr;
  int (*cuEventDestroy_v2)(GpuEvent) = nullptr;
  int (*cuGetErrorString)(int, const char**) = nullptr;
  std::string missing;  // why it cannot be used; empty if it can
};

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;
constexpr int kCaptureRelaxed = 2;  // other ranks' threads keep working during a capture
constexpr int kAttributeClock = 13, kAttributeMultiprocessors = 16, kAttributeMemoryClock = 36, kAttributeMajor = 75,
              kAttributeMinor = 76;

Driver Load() {
  Driver driver;
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    driver.missing = fmt::format("no CUDA driver: {}", ::dlerror());
    return driver;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) driver.missing = fmt::format("the CUDA driver is too old: it has no {}", name);
  };
#define TUTTI_FIND(name) find(driver.name, #name)
  TUTTI_FIND(cuInit);
  TUTTI_FIND(cuDeviceGetCount);
  TUTTI_FIND(cuDriverGetVersion);
  TUTTI_FIND(cuDeviceGetName);
  TUTTI_FIND(cuDeviceGetAttribute);
  TUTTI_FIND(cuDeviceTotalMem_v2);
  TUTTI_FIND(cuDevicePrimaryCtxRetain);
  TUTTI_FIND(cuDevicePrimaryCtxRelease_v2);
  TUTTI_FIND(cuCtxSetCurrent);
  TUTTI_FIND(cuMemAlloc_v2);
  TUTTI_FIND(cuMemFree_v2);
  TUTTI_FIND(cuMemcpyHtoDAsync_v2);
  TUTTI_FIND(cuMemcpyDtoHAsync_v2);
  TUTTI_FIND(cuMemcpyDtoDAsync_v2);
  TUTTI_FIND(cuStreamCreate);
  TUTTI_FIND(cuStreamDestroy_v2);
  TUTTI_FIND(cuStreamSynchronize);
  TUTTI_FIND(cuStreamWaitEvent);
  TUTTI_FIND(cuStreamBeginCapture_v2);
  TUTTI_FIND(cuStreamEndCapture);
  TUTTI_FIND(cuGraphInstantiateWithFlags);
  TUTTI_FIND(cuGraphLaunch);
  TUTTI_FIND(cuGraphDestroy);
  TUTTI_FIND(cuGraphExecDestroy);
  TUTTI_FIND(cuEventCreate);
  TUTTI_FIND(cuEventRecord);
  TUTTI_FIND(cuEventDestroy_v2);
  TUTTI_FIND(cuGetErrorString);
#undef TUTTI_FIND
  if (!driver.missing.empty()) return driver;
  const int result = driver.cuInit(0);
  const char* text = nullptr;
  if (result != 0) driver.cuGetErrorString(result, &text);
  if (result != 0) driver.missing = fmt::format("cuInit: {} ({})", text != nullptr ? text : "unknown error", result);
  return driver;
}

const Driver& TheDriver() {
  static const Driver driver = Load();
  return driver;
}

void Check(int result, const char* call) {
  if (result == 0) return;
  const char* text = nullptr;
  TheDriver().cuGetErrorString(result, &text);
  throw std::runtime_error(fmt::format("{}: {} ({})", call, text != nullptr ? text : "unknown error", result));
}

Pointer At(const std::byte* memory) { return reinterpret_cast<Pointer>(memory); }

}  // namespace

int Gpu::Count(std::string* why) {
  const Driver& driver = TheDriver();
  int count = 0;
  std::string reason = driver.missing;
  if (reason.empty()) Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (reason.empty() && count == 0) reason = "the CUDA driver reports no device";
  if (why != nullptr) *why = reason;
  return count;
}

Gpu::Gpu(int ordinal) : ordinal_(ordinal) {
  std::string why;
  const int count = Count(&why);
  if (count == 0) throw std::runtime_error(fmt::format("--memory device: {}", why));
  ordinal_ %= count;
  void* context = nullptr;
  Check(TheDriver().cuDevicePrimaryCtxRetain(&context, ordinal_), "cuDevicePrimaryCtxRetain");
  Check(TheDriver().cuCtxSetCurrent(context), "cuCtxSetCurrent");
  Check(TheDriver().cuStreamCreate(&stream_, kStreamNonBlocking), "cuStreamCreate");
}

// A failure here follows an earlier one, and the process is about to end.
Gpu::~Gpu() {
  TheDriver().cuStreamDestroy_v2(stream_);
  TheDriver().cuCtxSetCurrent(nullptr);
  TheDriver().cuDevicePrimaryCtxRelease_v2(ordinal_);
}

GpuDescription Gpu::Describe() const {
  const Driver& driver = TheDriver();
  const auto attribute = [&](int which) {
    int value = 0;  // remains 0 if a newer driver no longer knows the attribute
    driver.cuDeviceGetAttribute(&value, which, ordinal_);
    return value;
  };
  constexpr double kKilohertzPerMegahertz = 1000;
  std::array<char, 256> name{};
  GpuDescription text;
  Check(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), ordinal_), "cuDeviceGetName");
  Check(driver.cuDriverGetVersion(&text.driver), "cuDriverGetVersion");
  Check(driver.cuDeviceTotalMem_v2(&text.memory, ordinal_), "cuDeviceTotalMem");
  text.name = name.data();
  text.multiprocessors = attribute(kAttributeMultiprocessors);
  text.compute_capability = 10 * attribute(kAttributeMajor) + attribute(kAttributeMinor);
  text.clock_mhz = attribute(kAttributeClock) / kKilohertzPerMegahertz;
  text.memory_clock_mhz = attribute(kAttributeMemoryClock) / kKilohertzPerMegahertz;
  return text;
}

std::byte* Gpu::Allocate(std::size_t bytes) const {
  Pointer pointer = 0;
  Check(TheDriver().cuMemAlloc_v2(&pointer, std::max<std::size_t>(1, bytes)), "cuMemAlloc");
  return reinterpret_cast<std::byte*>(pointer);
}

void Gpu::Free(std::byte* memory) const { TheDriver().cuMemFree_v2(At(memory)); }

void Gpu::Write(std::byte* to, const std::byte* from, std::size_t bytes) const {
  if (bytes == 0) return;
  Check(TheDriver().cuMemcpyHtoDAsync_v2(At(to), from, bytes, stream_), "cuMemcpyHtoDAsync");
  Synchronize();
}

void Gpu::Read(std::byte* to, const std::byte* from, std::size_t bytes) const {
  if (bytes == 0) return;
  Check(TheDriver().cuMemcpyDtoHAsync_v2(to, At(from), bytes, stream_), "cuMemcpyDtoHAsync");
  Synchronize();
}

void Gpu::Copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
  Check(TheDriver().cuMemcpyDtoDAsync_v2(At(to), At(from), bytes, stream_), "cuMemcpyDtoDAsync");
}

void Gpu::Synchronize() const { Check(TheDriver().cuStreamSynchronize(stream_), "cuStreamSynchronize"); }

void Gpu::BeginCapture() const {
  Check(TheDriver().cuStreamBeginCapture_v2(stream_, kCaptureRelaxed), "cuStreamBeginCapture");
}

std::function<void()> Gpu::EndCapture() const {
  void* recorded = nullptr;
  Check(TheDriver().cuStreamEndCapture(stream_, &recorded), "cuStreamEndCapture");
  void* made = nullptr;
  const int result = TheDriver().cuGraphInstantiateWithFlags(&made, recorded, 0);
  TheDriver().cuGraphDestroy(recorded);
  Check(result, "cuGraphInstantiate");
  const std::shared_ptr<void> ready(made, [](void* graph) { TheDriver().cuGraphExecDestroy(graph); });
  return [ready, stream = stream_] { Check(TheDriver().cuGraphLaunch(ready.get(), stream), "cuGraphLaunch"); };
}

std::shared_ptr<void> Gpu::Mark() const {
  GpuEvent made = nullptr;
  Check(TheDriver().cuEventCreate(&made, kEventDisableTiming), "cuEventCreate");
  std::shared_ptr<void> mark(made, [](void* event) { TheDriver().cuEventDestroy_v2(event); });
  Check(TheDriver().cuEventRecord(mark.get(), stream_), "cuEventRecord");
  return mark;
}

void Gpu::Follow(const std::shared_ptr<void>& mark) const {
  Check(TheDriver().cuStreamWaitEvent(stream_, mark.get(), 0), "cuStreamWaitEvent");
}

}  // namespace tutti::bench
