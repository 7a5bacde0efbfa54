#include "transports/shm/cma.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file_descriptor.h"

namespace tutti::shm {

namespace {

// `thread`: of the process; its first one has the process's number.
bool ReadThrough(pid_t thread, std::uint64_t address, void* destination, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(destination);
  while (bytes > 0) {
    iovec local{to, bytes};
    iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t got = process_vm_readv(thread, &local, 1, &remote, 1, 0);
    if (got <= 0) return false;
    to += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// Calls `read` with threads of the process until it succeeds. Allocates nothing: this is on the data path.
template <typename Read>
bool ThroughAnyThread(pid_t pid, Read&& read) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/task", static_cast<int>(pid));
  const FileDescriptor folder(open(path.data(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  alignas(std::uint64_t) std::array<char, 4096> entries;
  for (;;) {
    const auto length = syscall(SYS_getdents64, folder.get(), entries.data(), entries.size());
    if (length <= 0) return false;
    for (long at = 0; at < length;) {
      // The layout is the kernel's: number, offset, length of the entry, type, name.
      constexpr long kLength = 16, kName = 19;
      std::uint16_t next = 0;
      std::memcpy(&next, entries.data() + at + kLength, sizeof next);
      const auto thread = static_cast<pid_t>(std::atoi(entries.data() + at + kName));
      // Afterwards the number must still be a thread of this process.
      if (thread > 0 && thread != pid && read(thread) && syscall(SYS_tgkill, pid, thread, 0) == 0) return true;
      at += next;
    }
  }
}

}  // namespace

bool ReadProcess(pid_t pid, std::uint64_t address, void* destination, std::size_t bytes) {
  if (ReadThrough(pid, address, destination, bytes)) return true;
  // Such a thread has no memory any more, though the process has.
  if (errno != ESRCH) return false;
  return ThroughAnyThread(pid, [&](pid_t thread) { return ReadThrough(thread, address, destination, bytes); });
}

bool MayReadProcesses() {
  const std::uint64_t probe = 0x5475747469;  // any value but 0
  const pid_t reader = fork();
  if (reader < 0) return false;
  if (reader == 0) {
    std::uint64_t echo = 0;
    const bool read = ReadProcess(getppid(), reinterpret_cast<std::uint64_t>(&probe), &echo, sizeof echo);
    _exit(read && echo == probe ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  int status = 0;
  while (waitpid(reader, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

}  // namespace tutti::shm
