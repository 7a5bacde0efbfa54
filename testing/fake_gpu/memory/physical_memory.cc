#include "testing/fake_gpu/memory/physical_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/memory/multicast.h"

namespace tutti::fake_gpu {
namespace {

constexpr const char* kNatureFormat = "tutti-fake_gpu-memory-%d-%d-%d";

}  // namespace

std::optional<Nature> NatureOf(int file) {
  char link[64], name[128] = "";
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, name, sizeof name - 1) < 0) return std::nullopt;
  Nature nature;
  const auto format = std::string("/memfd:") + kNatureFormat;
  if (std::sscanf(name, format.c_str(), &nature.device, &nature.handle_types, &nature.maker) != 3) return std::nullopt;
  return nature;
}

Object::Object(int file) : file_(file) {
  void* const pages = mmap(nullptr, sizeof(MulticastTable), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  Require(pages != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  table_ = static_cast<MulticastTable*>(pages);
}

Object::~Object() {
  if (table_ != nullptr) munmap(table_, sizeof(MulticastTable));
  close(file_);
}

std::size_t Object::bytes() const { return table_ != nullptr ? table_->bytes : bytes_; }

int NewFile(std::size_t bytes, const char* name) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  Require(file >= 0, CUDA_ERROR_OUT_OF_MEMORY);
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  close(file);
  Fail(CUDA_ERROR_OUT_OF_MEMORY);
}

std::shared_ptr<Object> NewPhysicalMemory(std::size_t bytes, const Nature& nature) {
  char name[64];
  std::snprintf(name, sizeof name, kNatureFormat, nature.device, nature.handle_types, nature.maker);
  return std::make_shared<Object>(NewFile(bytes, name), bytes, nature);
}

}  // namespace tutti::fake_gpu
