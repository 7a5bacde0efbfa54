#include "interop/jax/caller.h"

#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <typeinfo>

namespace tutti::jax {
namespace {

constexpr std::string_view kCliqueKey = "N3xla3cpu12CpuCliqueKeyE";  // as typeid().name() has it
constexpr std::size_t kMostDevices = 1 << 20;                        // no machine has as many; bounds what is read

using Word = std::uintptr_t;

// The loaded segments of the library that has `address`.
class Library {
 public:
  explicit Library(const void* address) : address_(reinterpret_cast<Word>(address)) {
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* self) { return static_cast<Library*>(self)->Look(*info) ? 1 : 0; },
        this);
  }
  bool Has(Word address, std::size_t bytes) const {
    return std::ranges::any_of(segments_, [&](const Segment& segment) {
      return address >= segment.begin && address <= segment.end && bytes <= segment.end - address;
    });
  }

 private:
  struct Segment {
    Word begin, end;
  };
  bool Look(const dl_phdr_info& info) {
    segments_.clear();
    for (const auto& header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
      if (header.p_type != PT_LOAD || (header.p_flags & PF_R) == 0) continue;
      const Word begin = info.dlpi_addr + header.p_vaddr;
      segments_.push_back({begin, begin + header.p_memsz});
    }
    if (Has(address_, 1)) return true;
    segments_.clear();
    return false;
  }

  Word address_;
  std::vector<Segment> segments_;
};

// Whether an object that begins with this word is a CpuCliqueKey: the Itanium C++ ABI puts a pointer to an object's
// type_info in front of the virtual functions to which its first word points, and in a type_info the name second.
bool BeginsCliqueKey(const Library& library, Word word) {
  constexpr std::size_t kWord = sizeof(Word);
  if (word % kWord != 0 || !library.Has(word - kWord, kWord)) return false;
  const Word info = *reinterpret_cast<const Word*>(word - kWord);
  if (info % kWord != 0 || !library.Has(info, sizeof(std::type_info))) return false;
  const Word name = reinterpret_cast<const Word*>(info)[1];
  if (!library.Has(name, kCliqueKey.size() + 1)) return false;
  return std::memcmp(reinterpret_cast<const char*>(name), kCliqueKey.data(), kCliqueKey.size() + 1) == 0;
}

// Copies the devices at `begin`; returns none if that memory is gone. An object left over on the stack may point to freed
// memory, so the kernel makes the copy: it reports an error where a load would crash.
Devices DevicesAt(Word begin, std::size_t bytes) {
  Devices devices(bytes / sizeof(Device));
  const iovec to{devices.data(), bytes}, from{reinterpret_cast<void*>(begin), bytes};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(bytes)) return devices;
  if (errno != EPERM && errno != ENOSYS) return {};
  // The system refuses such copies. Reads the memory if its pages are mapped; another thread is unlikely to unmap them now.
  const auto page = static_cast<Word>(sysconf(_SC_PAGESIZE));
  const Word first = begin & ~(page - 1), length = begin + bytes - first;
  std::vector<unsigned char> resident(length / page + 1);
  if (mincore(reinterpret_cast<void*>(first), length, resident.data()) != 0) return {};
  std::memcpy(devices.data(), reinterpret_cast<const void*>(begin), bytes);
  return devices;
}

// The words of this thread's stack from `frame` on; empty if `frame` is not on this stack.
std::span<const Word> StackFrom(const void* frame) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* begin = nullptr;
  std::size_t bytes = 0;
  const int status = pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  const auto at = reinterpret_cast<Word>(frame), first = reinterpret_cast<Word>(begin);
  if (status != 0 || at < first || at >= first + bytes) return {};
  return {static_cast<const Word*>(frame), (first + bytes - at) / sizeof(Word)};
}

}  // namespace

std::set<Devices> DevicesOnStack(const void* frame, const void* caller,
                                 const std::function<bool(const Devices&)>& plausible) {
  // Of a CpuCliqueKey: the virtual functions, then a std::vector<Device> as begin, end, end of memory.
  struct CliqueKey {
    Word functions, begin, end, memory_end;
  };
  const Library library(caller);
  constexpr std::size_t kWords = sizeof(CliqueKey) / sizeof(Word);
  std::set<Devices> found;
  for (auto stack = StackFrom(frame); stack.size() >= kWords; stack = stack.subspan(1)) {
    const CliqueKey key{stack[0], stack[1], stack[2], stack[3]};
    if (!BeginsCliqueKey(library, key.functions)) continue;
    const auto bytes = key.end - key.begin;
    if (key.begin == 0 || key.end <= key.begin || key.memory_end < key.end || bytes % sizeof(Device) != 0 ||
        bytes > kMostDevices * sizeof(Device)) {
      continue;
    }
    const auto devices = DevicesAt(key.begin, bytes);
    if (!devices.empty() && plausible(devices)) found.insert(devices);
  }
  return found;
}

}  // namespace tutti::jax
