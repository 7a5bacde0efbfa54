#include "transports/shm/cma.h"

#include <sys/uio.h>

namespace tutti::shm {

bool ReadProcess(pid_t pid, std::uint64_t address, void* destination, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(destination);
  while (bytes > 0) {
    iovec local{to, bytes};
    iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got <= 0) return false;
    to += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace tutti::shm
