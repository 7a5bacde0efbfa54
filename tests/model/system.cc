// The system as a model sees it: its heap, and (by the linker's --wrap) the calls that block, wake, yield or order
// memory. Outside a model's threads they go to the real system.
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/model/execution.h"

namespace tutti::model {
namespace {

void* Allocate(std::size_t bytes, std::size_t alignment) {
  auto* const execution = Running();
  if (execution != nullptr && execution->allocating()) {
    const Entry entry(*execution);
    return execution->Allocate(bytes);
  }
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Free(void* memory) {
  auto* const execution = Running();
  if (execution != nullptr) {
    const Entry entry(*execution);
    if (execution->Free(memory)) return;
  }
  std::free(memory);
}

}  // namespace
}  // namespace tutti::model

void* operator new(std::size_t bytes) { return tutti::model::Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tutti::model::Allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { tutti::model::Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { tutti::model::Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { tutti::model::Free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { tutti::model::Free(memory); }

using namespace tutti::model;  // NOLINT: below are the system's names, outside all namespaces

extern "C" {

long __real_syscall(long number, ...);
int __real_sched_yield();
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
ssize_t __real_write(int descriptor, const void* bytes, std::size_t count);
ssize_t __real_read(int descriptor, void* bytes, std::size_t count);
ssize_t __real_send(int descriptor, const void* bytes, std::size_t count, int flags);
ssize_t __real_recv(int descriptor, void* bytes, std::size_t count, int flags);
int __real_eventfd(unsigned count, int flags);
int __real_close(int descriptor);
int __real_ppoll(pollfd* entries, nfds_t count, const timespec* limit, const sigset_t* mask);

// Sleeps have no time limit here: a wake-up that only a time limit makes up for counts as lost.
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  auto* const execution = Checking();
  if (number == SYS_membarrier && Running() != nullptr) {
    if (execution != nullptr && a == MEMBARRIER_CMD_GLOBAL_EXPEDITED) {
      const Entry entry(*execution);
      execution->Membarrier();
    }
    return 0;
  }
  if (execution == nullptr || number != SYS_futex) return __real_syscall(number, a, b, c, d, e, f);
  const Entry entry(*execution);
  const auto* const word = reinterpret_cast<const void*>(a);
  switch (b & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      if (execution->FutexWait(word, static_cast<std::uint32_t>(c))) return 0;
      errno = EAGAIN;
      return -1;
    case FUTEX_WAKE: execution->FutexWake(word); return 0;
    default: execution->Fail("a futex call that the checker does not know");
  }
}

int __wrap_sched_yield() {
  auto* const execution = Checking();
  if (execution == nullptr) return __real_sched_yield();
  const Entry entry(*execution);
  execution->Spin();
  return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  auto* const execution = Checking();
  if (execution == nullptr) return __real_pthread_mutex_lock(mutex);
  const Entry entry(*execution);
  execution->Lock(mutex, true);
  return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  auto* const execution = Checking();
  if (execution == nullptr) return __real_pthread_mutex_trylock(mutex);
  const Entry entry(*execution);
  return execution->Lock(mutex, false) ? 0 : EBUSY;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  auto* const execution = Checking();
  if (execution == nullptr) return __real_pthread_mutex_unlock(mutex);
  const Entry entry(*execution);
  execution->Unlock(mutex);
  return 0;
}

ssize_t __wrap_write(int descriptor, const void* bytes, std::size_t count) {
  auto* const execution = Checking();
  if (execution == nullptr || !Execution::IsBell(descriptor)) return __real_write(descriptor, bytes, count);
  const Entry entry(*execution);
  if (!execution->Dropped(Primitive::bell)) execution->RingBell(descriptor);
  return static_cast<ssize_t>(count);
}

ssize_t __wrap_read(int descriptor, void* bytes, std::size_t count) {
  auto* const execution = Checking();
  if (execution == nullptr || !Execution::IsBell(descriptor)) return __real_read(descriptor, bytes, count);
  const Entry entry(*execution);
  if (execution->SilenceBell(descriptor)) return static_cast<ssize_t>(count);
  errno = EAGAIN;
  return -1;
}

// A bell between processes is a pair of sockets, which no call here waits for.
ssize_t __wrap_send(int descriptor, const void* bytes, std::size_t count, int flags) {
  return Execution::IsBell(descriptor) ? __wrap_write(descriptor, bytes, count)
                                       : __real_send(descriptor, bytes, count, flags);
}

ssize_t __wrap_recv(int descriptor, void* bytes, std::size_t count, int flags) {
  return Execution::IsBell(descriptor) ? __wrap_read(descriptor, bytes, count)
                                       : __real_recv(descriptor, bytes, count, flags);
}

int __wrap_eventfd(unsigned count, int flags) {
  auto* const execution = Running();
  if (execution == nullptr || !execution->allocating()) return __real_eventfd(count, flags);
  const Entry entry(*execution);
  return execution->NewBell();
}

int __wrap_close(int descriptor) { return Execution::IsBell(descriptor) ? 0 : __real_close(descriptor); }

int __wrap_ppoll(pollfd* entries, nfds_t count, const timespec* limit, const sigset_t* mask) {
  auto* const execution = Checking();
  if (execution == nullptr || count == 0 || !Execution::IsBell(entries[0].fd)) {
    return __real_ppoll(entries, count, limit, mask);
  }
  const Entry entry(*execution);
  std::vector<int> bells;
  for (nfds_t i = 0; i < count; ++i) bells.push_back(entries[i].fd);
  entries[execution->AwaitBells(bells)].revents = POLLIN;
  return 1;
}
}
