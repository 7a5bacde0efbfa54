#include "src/device/proxy.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/quiet_thread.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// A look costs some us. Between two it waits for this share of the time in which nothing has moved, so that it adds no
// more than that to what the kernel has waited for anyhow,
constexpr int kShareOfQuiet = 64;
// but does not ask for a nap that is shorter than a timer's slack: then others may have the core, and it looks again;
constexpr microseconds kShortestNap{20};
// nor, with a thousand looks a second costing two percent of a core, for a longer one.
constexpr microseconds kLongestNap{1000};
// Without anything to expect, only a wake-up or the network ends its sleep; but nothing is lost by a look.
constexpr microseconds kSleep{1'000'000};

}  // namespace

DeviceProxy::DeviceProxy(Fabric& control, NetworkEngine& engine, std::function<bool()> expects)
    : control_(control), engine_(engine), expects_(std::move(expects)), sleeper_(control) {
  thread_ = QuietThread([this] { Work(); });
}

DeviceProxy::~DeviceProxy() {
  end_.store(true, std::memory_order_release);
  Wake();
  thread_.join();
}

void DeviceProxy::Wake() {
  // With the alarm that the sleeper sets, a Dekker pair: see doorbell.h.
  wakes_.fetch_add(1, std::memory_order_release);
  WakeSleepers(control_);
}

void DeviceProxy::Work() {
  auto moved = Clock::now();
  std::uint64_t woken = 0;
  while (!end_.load(std::memory_order_acquire)) {
    const auto wakes = wakes_.load(std::memory_order_acquire);
    if (engine_.Progress() || wakes != woken) {
      woken = wakes;
      moved = Clock::now();
      continue;
    }
    if (!expects_()) {
      sleeper_.Sleep(kSleep, [&] { return engine_.Progress() || wakes_.load(std::memory_order_acquire) != woken; });
      moved = Clock::now();
      continue;
    }
    const auto nap = std::chrono::duration_cast<microseconds>((Clock::now() - moved) / kShareOfQuiet);
    if (nap < kShortestNap) {
      sched_yield();
    } else {
      engine_.Sleep(std::min(nap, kLongestNap));
    }
  }
}

}  // namespace tutti
