#include "testing/gpu.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string_view>

namespace tutti::testing {
namespace {

using Pointer = std::uint64_t;

void* Library() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}

// Calls the driver's function of that name with arguments of exactly these types.
template <typename... Arguments>
int Try(const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(Library(), name));
  if (function == nullptr) return -1;
  return function(arguments...);
}

template <typename... Arguments>
void Call(const char* name, Arguments... arguments) {
  EXPECT_EQ(Try(name, arguments...), 0) << name;
}

}  // namespace

int Gpu::Count() {
  int count = 0;
  if (Library() == nullptr || Try("cuInit", 0U) != 0 || Try("cuDeviceGetCount", &count) != 0) return 0;
  return count;
}

bool Gpu::IsFake() {
  char name[64] = "";
  Call("cuDeviceGetName", +name, static_cast<int>(sizeof name), 0);
  return std::string_view(name).starts_with("Tutti fake GPU");  // or an instance of it
}

Gpu::Gpu(int ordinal) : ordinal_(ordinal % Count()) {
  Call("cuDevicePrimaryCtxRetain", &context_, ordinal_);
  MakeCurrent();
}

void Gpu::MakeCurrent() const { Call("cuCtxSetCurrent", context_); }

Gpu::~Gpu() {
  Call<void*>("cuCtxSetCurrent", nullptr);
  Call("cuDevicePrimaryCtxRelease_v2", ordinal_);
}

std::byte* Gpu::Allocate(std::size_t bytes) const {
  Pointer pointer = 0;
  Call("cuMemAlloc_v2", &pointer, bytes);
  return reinterpret_cast<std::byte*>(pointer);
}

std::byte* Gpu::AllocateShared(std::size_t bytes) const {
  constexpr unsigned kGlobal = 1;  // CU_MEM_ATTACH_GLOBAL
  Pointer pointer = 0;
  // The fake GPU's memory is the host's anyway.
  if (Try("cuMemAllocManaged", &pointer, bytes, kGlobal) != 0) return Allocate(bytes);
  return reinterpret_cast<std::byte*>(pointer);
}

void Gpu::Put(std::byte* to, const void* from, std::size_t bytes) const {
  Call("cuMemcpyHtoD_v2", reinterpret_cast<Pointer>(to), from, bytes);
  // That call may return when it has read pageable memory, and other streams do not wait for the null stream.
  Call<void*>("cuStreamSynchronize", nullptr);
}

void Gpu::Get(void* to, const std::byte* from, std::size_t bytes) const {
  Call("cuMemcpyDtoH_v2", to, reinterpret_cast<Pointer>(from), bytes);
}

void Gpu::Free(std::byte* memory) const { Call("cuMemFree_v2", reinterpret_cast<Pointer>(memory)); }

std::byte* Gpu::MapPieces(std::size_t count, bool shareable) const {
  struct Location {
    int type, id;
  };
  struct Properties {  // CUmemAllocationProp
    int type, handle_types;
    Location location;
    void* windows;
    unsigned char flags[8];
  };
  struct Access {
    Location location;
    int flags;
  };
  constexpr int kPinned = 1, kFileDescriptor = 1, kOnDevice = 1, kReadWrite = 3;
  const Properties properties{kPinned, shareable ? kFileDescriptor : 0, {kOnDevice, ordinal_}, nullptr, {}};
  const Access access{{kOnDevice, ordinal_}, kReadWrite};
  Pointer base = 0;
  Call("cuMemAddressReserve", &base, count * kPiece, std::size_t{0}, Pointer{0}, 0ULL);
  for (std::size_t piece = 0; piece < count; ++piece) {
    Pointer memory = 0;
    const Pointer at = base + piece * kPiece;
    Call("cuMemCreate", &memory, kPiece, &properties, 0ULL);
    Call("cuMemMap", at, kPiece, std::size_t{0}, memory, 0ULL);
    Call("cuMemSetAccess", at, kPiece, &access, std::size_t{1});
    Call("cuMemRelease", memory);
  }
  return reinterpret_cast<std::byte*>(base);
}

void Gpu::UnmapPiece(std::byte* memory, std::size_t piece) const {
  Call("cuMemUnmap", reinterpret_cast<Pointer>(memory) + piece * kPiece, kPiece);
}

void Gpu::UnmapPieces(std::byte* memory, std::size_t count) const {
  for (std::size_t piece = 0; piece < count; ++piece) UnmapPiece(memory, piece);
  Call("cuMemAddressFree", reinterpret_cast<Pointer>(memory), count * kPiece);
}

std::size_t Gpu::FreeBytes() const {
  std::size_t free = 0, total = 0;
  Call("cuMemGetInfo_v2", &free, &total);
  return free;
}

tuttiStream_t Gpu::NewStream() const {
  constexpr unsigned kNonBlocking = 1;
  tuttiStream_t stream = nullptr;
  Call("cuStreamCreate", &stream, kNonBlocking);
  return stream;
}

void Gpu::DestroyStream(tuttiStream_t stream) const { Call("cuStreamDestroy_v2", stream); }

bool Gpu::Busy(tuttiStream_t stream) const {
  constexpr int kNotReady = 600;  // CUDA_ERROR_NOT_READY
  return Try("cuStreamQuery", stream) == kNotReady;
}

tuttiResult_t Gpu::Synchronize(tuttiStream_t stream) const {
  return Try("cuStreamSynchronize", stream) == 0 ? tuttiSuccess : tuttiUnhandledCudaError;
}

void Gpu::BeginCapture(tuttiStream_t stream, Capture mode) const {
  Call("cuStreamBeginCapture_v2", stream, static_cast<int>(mode));  // in the order of CUstreamCaptureMode
}

void Gpu::CopyAsync(std::byte* to, const std::byte* from, std::size_t bytes, tuttiStream_t stream) const {
  Call("cuMemcpyAsync", reinterpret_cast<Pointer>(to), reinterpret_cast<Pointer>(from), bytes, stream);
}

void* Gpu::EndCapture(tuttiStream_t stream) const {
  void *graph = nullptr, *ready = nullptr;
  Call("cuStreamEndCapture", stream, &graph);
  Call("cuGraphInstantiateWithFlags", &ready, graph, 0ULL);
  return ready;
}

std::size_t Gpu::NodesBefore(tuttiStream_t stream) const {
  int status = 0;
  std::uint64_t id = 0;
  void *graph = nullptr, *nodes = nullptr;
  std::size_t count = 0;
  Call("cuStreamGetCaptureInfo_v2", stream, &status, &id, &graph, &nodes, &count);
  return count;
}

void Gpu::LaunchGraph(void* graph, tuttiStream_t stream) const { Call("cuGraphLaunch", graph, stream); }

int Gpu::Launch(const void* image, const char* kernel, unsigned blocks, unsigned threads, void* parameter,
                tuttiStream_t stream) const {
  void *module = nullptr, *function = nullptr;
  Call("cuModuleLoadData", &module, image);
  Call("cuModuleGetFunction", &function, module, kernel);
  constexpr unsigned kNoSharedMemory = 0;
  return Try("cuLaunchKernel", function, blocks, 1U, 1U, threads, 1U, 1U, kNoSharedMemory, stream, &parameter,
             static_cast<void**>(nullptr));
}

std::uint64_t Gpu::Waits() {
  auto* const count = reinterpret_cast<unsigned long long (*)()>(dlsym(Library(), "fakeGpuWaits"));
  return count == nullptr ? 0 : count();
}

bool Gpu::Reach(const Gpu& other) const {
  constexpr int kAlready = 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
  MakeCurrent();
  const int result = Try("cuCtxEnablePeerAccess", other.context_, 0U);
  return result == 0 || result == kAlready;
}

void Gpu::Follow(tuttiStream_t to, tuttiStream_t from) const {
  void* event = nullptr;
  Call("cuEventCreate", &event, 0U);
  Call("cuEventRecord", event, from);
  Call("cuStreamWaitEvent", to, event, 0U);
  Call("cuEventDestroy_v2", event);
}

}  // namespace tutti::testing
