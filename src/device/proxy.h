// Drives the network for a communicator's GPU, whose kernels can only fill and empty slots: a thread that is busy while
// there may be something to move, and asleep otherwise.
//
// Kernels do not signal that they have filled a slot, so the thread polls, less often the longer nothing has moved.
// Network traffic and threads that enqueue calls wake it. It cannot see replays of a captured graph: once a graph
// exists, it polls occasionally forever.
//
// Thread-safety: has its own thread; Wake() from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "executors/host/doorbell.h"
#include "transports/progress/network.h"

namespace tutti::device {

class DeviceProxy {
 public:
  // `control` is the fabric that `engine` serves. `expects`: whether kernels may be running or about to run; the thread
  // calls it. All outlive this. `memory_node`: where the thread runs (shm::RunOnMemoryNode).
  DeviceProxy(shm::Fabric& control, progress::NetworkEngine& engine, int memory_node, std::function<bool()> expects);
  ~DeviceProxy();
  DeviceProxy(const DeviceProxy&) = delete;
  DeviceProxy& operator=(const DeviceProxy&) = delete;

  // Calls have been enqueued, or will be at once.
  void Wake();

 private:
  void Work();

  shm::Fabric& control_;
  progress::NetworkEngine& engine_;
  std::function<bool()> expects_;
  host::Sleeper sleeper_;
  std::atomic<std::uint64_t> wakes_{0};
  std::atomic<bool> end_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tutti::device
