// Drives the network of a communicator's GPU, whose kernels can only fill and empty slots: a thread, which is busy
// while there may be something to move, and asleep otherwise.
//
// Nobody tells it that a kernel has filled a slot, so it looks; the less often, the longer nothing has moved. What
// comes from the network wakes it, and so does who enqueues calls. Replays of a captured graph are not seen from here:
// once there is one, it looks now and then for ever.
//
// Thread-safety: has a thread of its own; Wake() from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "executors/host/doorbell.h"
#include "transports/progress/network.h"

namespace tutti {

class DeviceProxy {
 public:
  // `control` is the fabric that `engine` serves. `expects`: may kernels be running, or about to run? Called by the
  // thread. All outlive this.
  DeviceProxy(Fabric& control, NetworkEngine& engine, std::function<bool()> expects);
  ~DeviceProxy();
  DeviceProxy(const DeviceProxy&) = delete;
  DeviceProxy& operator=(const DeviceProxy&) = delete;

  // Calls have been enqueued, or will be at once.
  void Wake();

 private:
  void Work();

  Fabric& control_;
  NetworkEngine& engine_;
  std::function<bool()> expects_;
  Sleeper sleeper_;
  std::atomic<std::uint64_t> wakes_{0};
  std::atomic<bool> end_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tutti
