#include "src/device/proxy.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/threads/quiet_thread.h"
#include "transports/shm/memory_nodes.h"

namespace tutti::device {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

// A look costs a few us. Between looks the proxy waits for this share of the time since anything moved, so that it
// extends the kernel's wait by no more than that,
constexpr int kShareOfQuiet = 64;
// but never naps for less than a timer's slack: it yields the core instead and looks again;
constexpr microseconds kShortestNap{20};
// nor for more than this, as a thousand looks a second cost only two percent of a core.
constexpr microseconds kLongestNap{1000};
// If it expects nothing, only a wake-up or the network ends its sleep; an extra look does no harm.
constexpr microseconds kSleep{1'000'000};

}  // namespace

DeviceProxy::DeviceProxy(shm::Fabric& control, progress::NetworkEngine& engine, int memory_node,
                         std::function<bool()> expects)
    : control_(control), engine_(engine), expects_(std::move(expects)), sleeper_(control, &engine) {
  thread_ = QuietThread([this, memory_node] {
    shm::RunOnMemoryNode(memory_node, static_cast<int>(control_.local().size()));
    Work();
  });
}

DeviceProxy::~DeviceProxy() {
  end_.store(true, std::memory_order_release);
  Wake();
  thread_.join();
}

void DeviceProxy::Wake() {
  // Forms a Dekker pair with the alarm that the sleeper sets: see doorbell.h.
  wakes_.fetch_add(1, std::memory_order_release);
  host::WakeSleepers(control_);
}

void DeviceProxy::Work() {
  auto moved = steady_clock::now();
  std::uint64_t woken = 0;
  while (!end_.load(std::memory_order_acquire)) {
    const auto wakes = wakes_.load(std::memory_order_acquire);
    if (engine_.Progress() || wakes != woken) {
      woken = wakes;
      moved = steady_clock::now();
      continue;
    }
    if (!expects_()) {
      sleeper_.Sleep(kSleep, [&] { return engine_.Progress() || wakes_.load(std::memory_order_acquire) != woken; });
      moved = steady_clock::now();
      continue;
    }
    const auto nap = std::chrono::duration_cast<microseconds>((steady_clock::now() - moved) / kShareOfQuiet);
    if (nap < kShortestNap) {
      sched_yield();
    } else {
      engine_.Sleep(std::min(nap, kLongestNap));
    }
  }
}

}  // namespace tutti::device
