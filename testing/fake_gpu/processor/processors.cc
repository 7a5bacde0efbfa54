#include "testing/fake_gpu/processor/processors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/environment.h"

namespace tutti::fake_gpu {
namespace {

// The file that is mapped at `address`, and where in it; no descriptor: it is no shared file, or one that this user may
// not open.
std::pair<FileDescriptor, std::uint64_t> FileBehind(std::uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, offset = 0, number = 0;
    unsigned major_number = 0, minor_number = 0;
    char mode[8] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %7s %lx %x:%x %lu", &begin, &end, mode, &offset, &major_number,
                    &minor_number, &number) != 7)
      continue;
    if (address < begin || address >= end || mode[3] != 's') continue;
    offset += address - begin;
    // Each file system numbers its own files. (Of some, such as btrfs, a mapping does not show the number that fstat has;
    // their files are opened below, where that is allowed.)
    const dev_t file_system = makedev(major_number, minor_number);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      struct stat status {};
      const int file = std::stoi(entry.path().filename());
      if (fstat(file, &status) == 0 && status.st_dev == file_system && status.st_ino == number &&
          S_ISREG(status.st_mode)) {
        return {FileDescriptor(fcntl(file, F_DUPFD_CLOEXEC, 0)), offset};
      }
    }
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", begin, end);
    return {FileDescriptor(open(path, O_RDWR | O_CLOEXEC)), offset};
  }
  return {};
}

}  // namespace

Processors& Processors::Instance() {
  static auto* processors = new Processors;
  return *processors;
}

void Processors::Add(std::uintptr_t address, std::size_t bytes, int file, std::uint64_t offset) {
  FileDescriptor own(fcntl(file, F_DUPFD_CLOEXEC, 0));
  Require(static_cast<bool>(own), CUDA_ERROR_OPERATING_SYSTEM);
  const std::lock_guard lock(mutex_);
  const bool added = memory_.try_emplace(address, Memory{bytes, std::move(own), offset, {}}).second;
  Require(added, CUDA_ERROR_INVALID_VALUE);
}

void Processors::AddOwn(std::uintptr_t address, std::size_t bytes) {
  const auto [file, offset] = FileBehind(address);
  if (!file) {
    std::fprintf(stderr, "fake GPU: kernels will not see the registered memory at %#lx: no shared file\n", address);
    return;
  }
  Add(address, bytes, file.get(), offset);
  try {
    for (CUdevice device = 0; device < TheEnvironment().devices(); ++device) SetAccess(address, device, true);
  } catch (...) {
    Remove(address);
    throw;
  }
}

void Processors::Remove(std::uintptr_t address) {
  const std::lock_guard lock(mutex_);
  const auto node = memory_.extract(address);
  if (node.empty()) return;
  const Memory& memory = node.mapped();
  for (const CUdevice device : memory.access) {
    if (const auto found = started_.find(device); found != started_.end()) found->second->Unmap(address, memory.bytes);
  }
}

void Processors::SetAccess(std::uintptr_t address, CUdevice device, bool may) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memory_.at(address);
  if (memory.access.contains(device) == may) return;
  if (const auto found = started_.find(device); found == started_.end()) {
    // It gets all of its memory when it starts.
  } else if (may) {
    found->second->Map(address, memory.bytes, memory.file.get(), memory.offset);
  } else {
    found->second->Unmap(address, memory.bytes);
  }
  if (may) {
    memory.access.insert(device);
  } else {
    memory.access.erase(device);
  }
}

Processor& Processors::Of(CUdevice device) {
  const std::lock_guard lock(mutex_);
  if (const auto found = started_.find(device); found != started_.end()) return *found->second;
  auto started = std::make_unique<Processor>();
  for (const auto& [address, memory] : memory_) {
    if (memory.access.contains(device)) started->Map(address, memory.bytes, memory.file.get(), memory.offset);
  }
  return *started_.emplace(device, std::move(started)).first->second;
}

void Processors::Run(CUdevice device, std::uint32_t kernel, const GridShape& shape,
                     std::span<const std::byte> parameter) {
  if (Of(device).Run(kernel, shape, parameter)) return;
  LoseContext();
  const std::lock_guard lock(mutex_);
  for (const auto& [each, processor] : started_) processor->End();
}

}  // namespace tutti::fake_gpu
