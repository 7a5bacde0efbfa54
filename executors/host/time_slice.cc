#include "executors/host/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace tutti::host {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr pid_t kCallingThread = 0;

// sched_attr of sched_setattr(2), in its first version. The kernel's header contradicts <sched.h>, and glibc 2.36 wraps
// neither system call.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // the slice, of a thread without real-time policy
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
constexpr std::uint64_t kResetOnFork = 1;  // SCHED_FLAG_RESET_ON_FORK

std::optional<Attributes> AttributesOfThread() {
  Attributes attributes;
  if (syscall(SYS_sched_getattr, kCallingThread, &attributes, sizeof(attributes), 0) != 0) return std::nullopt;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return std::nullopt;
  return attributes;
}

}  // namespace

bool AskForSlices(microseconds slice) {
  auto attributes = AttributesOfThread();
  if (!attributes) return false;
  const auto wanted = static_cast<std::uint64_t>(nanoseconds(slice).count());
  // An older kernel reports 0 and ignores what it is given.
  if (attributes->runtime_ns <= wanted) return false;
  attributes->runtime_ns = wanted;
  attributes->flags &= kResetOnFork;  // the others would change what is not named here
  return syscall(SYS_sched_setattr, kCallingThread, &*attributes, 0) == 0;
}

microseconds SliceOfThread() {
  const auto attributes = AttributesOfThread();
  if (!attributes) return microseconds(0);
  return duration_cast<microseconds>(nanoseconds(attributes->runtime_ns));
}

}  // namespace tutti::host
