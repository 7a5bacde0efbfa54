// Other processes' device memory.
#include <cuda.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/memory/memory.h"
#include "testing/fake_gpu/stream/capture.h"

namespace tutti::fake_gpu {
namespace {

// A handle's contents: the process and descriptor to open, and the identity of the file expected there.
struct Exported {
  pid_t process;
  int file;
  dev_t file_system;
  ino_t number;
  std::size_t bytes;
  int device;  // its number in the machine
};
static_assert(sizeof(Exported) <= sizeof(CUipcMemHandle));

// Opening a file again returns the same mapping.
struct Imports {
  struct One {
    std::uintptr_t address;
    int uses;
  };
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, One> by_file;
};

Imports& TheImports() {
  static auto* imports = new Imports;
  return *imports;
}

std::uintptr_t Import(const Exported& exported) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(exported.process), exported.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  Require(file >= 0, CUDA_ERROR_INVALID_VALUE);
  struct stat found {};
  if (fstat(file, &found) != 0 || found.st_ino != exported.number || found.st_dev != exported.file_system) {
    close(file);
    Fail(CUDA_ERROR_INVALID_VALUE);  // the memory was freed, and its descriptor now refers to something else
  }
  auto mapping = std::make_shared<Mapping>(file, exported.bytes, true);
  const auto address = mapping->address();
  Ranges::Instance().Add({.address = address,
                          .bytes = exported.bytes,
                          .kind = Kind::kImported,
                          .device = DeviceOfNumber(exported.device),
                          .mapping = std::move(mapping)});
  return address;
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

// Exports the whole allocation that contains `pointer`.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  return Answer([&] {
    const auto range = Ranges::Instance().Find(pointer);
    Require(range && range->kind == Kind::kDevice && !range->pooled, CUDA_ERROR_INVALID_VALUE);
    struct stat file {};
    Require(fstat(range->mapping->file(), &file) == 0, CUDA_ERROR_UNKNOWN);
    const Exported exported{getpid(),    range->mapping->file(), file.st_dev,
                            file.st_ino, range->bytes,           NumberOf(range->device)};
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &exported, sizeof exported);
  });
}

// The current device gets access to the memory, to that of no other allocation.
CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned flags) {
  return Answer([&] {
    ForbidWhileCapturing();
    Require(flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
    Exported exported{};
    std::memcpy(&exported, &handle, sizeof exported);
    Require(exported.bytes > 0, CUDA_ERROR_INVALID_VALUE);
    Require(exported.process != getpid(), CUDA_ERROR_INVALID_CONTEXT);  // a process has no need to import its own
    Require(exported.device < TheEnvironment().machine_devices, CUDA_ERROR_INVALID_DEVICE);
    Require(NumberReaches(NumberOf(CurrentDevice()), exported.device), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    auto& imports = TheImports();
    const std::lock_guard lock(imports.mutex);
    const std::pair file{exported.file_system, exported.number};
    auto found = imports.by_file.find(file);
    if (found == imports.by_file.end()) {
      Require(imports.by_file.size() < static_cast<std::size_t>(TheEnvironment().imports), CUDA_ERROR_OUT_OF_MEMORY);
      MayWaitForKernels();
      found = imports.by_file.emplace(file, Imports::One{Import(exported), 0}).first;
    }
    Ranges::Instance().Find(found->second.address)->mapping->SetAccess(CurrentDevice(), true);
    ++found->second.uses;
    *pointer = found->second.address;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  return Answer([&] {
    ForbidWhileCapturing();
    auto& imports = TheImports();
    const std::lock_guard lock(imports.mutex);
    for (auto each = imports.by_file.begin(); each != imports.by_file.end(); ++each) {
      if (each->second.address != pointer) continue;
      if (--each->second.uses > 0) return;
      Ranges::Instance().Remove(pointer, Kind::kImported, CUDA_ERROR_INVALID_VALUE);
      imports.by_file.erase(each);
      return;
    }
    Fail(CUDA_ERROR_INVALID_VALUE);
  });
}
