#include "executors/host/doorbell.h"

#include <linux/membarrier.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/threads/futex.h"

namespace tutti::host {
namespace {

// Without membarrier, here or in a peer's process, a ring can be missed, so no thread sleeps longer than this.
constexpr std::chrono::microseconds kUnguardedSleep{500};

}  // namespace

void WakeAll(shm::Fabric& fabric) {
  // Pairs with the sleeper's increment of `sleepers`: a thread that sees it also sees `sleeping`.
  if (fabric.sleepers().load(std::memory_order_acquire) == 0) return;
  for (const int rank : fabric.local()) {
    auto& control = fabric.control(rank);
    if (control.sleeping.load(std::memory_order_relaxed) == 0) continue;
    if (const int bell = fabric.bell(rank); bell >= 0) {
      const std::byte once{1};
      // If there is no room, it rings already.
      [[maybe_unused]] const auto sent = send(bell, &once, sizeof once, MSG_DONTWAIT | MSG_NOSIGNAL);
      continue;
    }
    control.doorbell.fetch_add(1, std::memory_order_release);
    FutexWakeAll(control.doorbell);
  }
}

Sleeper::Sleeper(shm::Fabric& fabric, progress::NetworkEngine* network) : fabric_(fabric), network_(network) {
  const bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  fabric_.control(fabric_.rank()).hears_barriers.store(registered ? 1 : 0, std::memory_order_relaxed);
}

bool Sleeper::AllHearBarriers() const {
  return std::ranges::all_of(fabric_.local(), [this](int rank) {
    return fabric_.control(rank).hears_barriers.load(std::memory_order_relaxed) != 0;
  });
}

Sleeper::Alarm Sleeper::SetAlarm() {
  auto& control = fabric_.control(fabric_.rank());
  Alarm alarm;
  if (network_ != nullptr) alarm.own_bell = network_->TakeBell();
  if (!guarded_.load(std::memory_order_relaxed)) guarded_.store(AllHearBarriers(), std::memory_order_relaxed);
  alarm.bell = control.doorbell.load(std::memory_order_acquire);
  control.sleeping.fetch_add(1, std::memory_order_relaxed);
  fabric_.sleepers().fetch_add(1, std::memory_order_seq_cst);
  if (guarded_.load(std::memory_order_relaxed)) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  return alarm;
}

bool Sleeper::Wait(const Alarm& alarm, std::chrono::microseconds limit) {
  const bool guarded = guarded_.load(std::memory_order_relaxed);
  const auto sleep = guarded ? limit : std::min(limit, kUnguardedSleep);
  if (network_ != nullptr) return network_->Sleep(alarm.own_bell, sleep) || !guarded;
  return FutexWait(fabric_.control(fabric_.rank()).doorbell, alarm.bell, sleep) || !guarded;
}

void Sleeper::ClearAlarm(const Alarm& alarm) {
  fabric_.sleepers().fetch_sub(1, std::memory_order_relaxed);
  fabric_.control(fabric_.rank()).sleeping.fetch_sub(1, std::memory_order_relaxed);
  if (network_ != nullptr) network_->ReturnBell(alarm.own_bell);
}

}  // namespace tutti::host
