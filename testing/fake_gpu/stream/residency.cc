#include "testing/fake_gpu/stream/residency.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

#include "testing/fake_gpu/environment.h"

namespace tutti::fake_gpu {
namespace {

// A multiprocessor, in parts that blocks of different sizes take.
constexpr std::uint64_t kWhole = 1 << 20;

struct Devices {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<CUdevice, std::uint64_t> taken;
};

Devices& TheDevices() {
  static auto* devices = new Devices;
  return *devices;
}

}  // namespace

Room::Room(CUdevice device, std::uint32_t blocks, int per_multiprocessor, bool cooperative)
    : device_(device), each_(kWhole / static_cast<std::uint64_t>(per_multiprocessor)) {
  auto& devices = TheDevices();
  const std::uint64_t all = kWhole * static_cast<std::uint64_t>(TheEnvironment().multiprocessors);
  std::unique_lock lock(devices.mutex);
  auto& taken = devices.taken[device];
  const auto free_blocks = [&] { return static_cast<std::uint32_t>((all - taken) / each_); };
  devices.changed.wait(lock, [&] { return free_blocks() >= (cooperative ? blocks : 1); });
  blocks_ = std::min(blocks, free_blocks());
  taken += blocks_ * each_;
}

Room::~Room() {
  auto& devices = TheDevices();
  const std::lock_guard lock(devices.mutex);
  devices.taken[device_] -= blocks_ * each_;
  devices.changed.notify_all();
}

}  // namespace tutti::fake_gpu
