#include "executors/host/doorbell.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "transports/network.h"

namespace tutti {
namespace {

// Without membarrier a ring can be missed; then nobody sleeps longer than this.
constexpr std::chrono::microseconds kUnguardedSleep{500};

void Futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* limit) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit, nullptr, 0);
}

}  // namespace

void WakeAll(Fabric& fabric) {
  // Pairs with the sleeper's increment of `sleepers`: whoever sees that sees its `sleeping`, too.
  if (fabric.sleepers().load(std::memory_order_acquire) == 0) return;
  for (const int rank : fabric.local()) {
    auto& control = fabric.control(rank);
    if (control.sleeping.load(std::memory_order_relaxed) == 0) continue;
    if (const int bell = fabric.bell(rank); bell >= 0) {
      const std::uint64_t once = 1;
      [[maybe_unused]] const auto written = write(bell, &once, sizeof once);  // full: it rings already
      continue;
    }
    control.doorbell.fetch_add(1, std::memory_order_release);
    Futex(control.doorbell, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

Sleeper::Sleeper(Fabric& fabric)
    : fabric_(fabric), barrier_(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0) {}

std::uint32_t Sleeper::SetAlarm() {
  auto& control = fabric_.control(fabric_.rank());
  const auto bell = control.doorbell.load(std::memory_order_acquire);
  control.sleeping.fetch_add(1, std::memory_order_relaxed);
  fabric_.sleepers().fetch_add(1, std::memory_order_seq_cst);
  if (barrier_) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  return bell;
}

void Sleeper::Wait(std::uint32_t bell, std::chrono::microseconds limit) {
  const auto sleep = barrier_ ? limit : std::min(limit, kUnguardedSleep);
  if (auto* const network = fabric_.network()) return network->Sleep(sleep);
  const timespec time{sleep.count() / 1'000'000, sleep.count() % 1'000'000 * 1000};
  Futex(fabric_.control(fabric_.rank()).doorbell, FUTEX_WAIT, bell, &time);
}

void Sleeper::ClearAlarm() {
  fabric_.sleepers().fetch_sub(1, std::memory_order_relaxed);
  fabric_.control(fabric_.rank()).sleeping.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tutti
