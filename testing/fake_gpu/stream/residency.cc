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

struct Device {
  std::uint64_t taken = 0;
  bool cooperates = false;  // a cooperative grid runs that is to run alone among its kind
};

struct Devices {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<CUdevice, Device> all;
};

Devices& TheDevices() {
  static auto* devices = new Devices;
  return *devices;
}

}  // namespace

Room::Room(CUdevice device, std::uint32_t blocks, int per_multiprocessor, bool cooperative)
    : device_(device),
      each_(kWhole / static_cast<std::uint64_t>(per_multiprocessor)),
      alone_(cooperative && TheEnvironment().cooperative_alone) {
  auto& devices = TheDevices();
  const std::uint64_t all = kWhole * static_cast<std::uint64_t>(TheEnvironment().multiprocessors);
  std::unique_lock lock(devices.mutex);
  auto& mine = devices.all[device];
  const auto free_blocks = [&] { return static_cast<std::uint32_t>((all - mine.taken) / each_); };
  devices.changed.wait(lock,
                       [&] { return free_blocks() >= (cooperative ? blocks : 1) && !(alone_ && mine.cooperates); });
  blocks_ = std::min(blocks, free_blocks());
  mine.taken += blocks_ * each_;
  if (alone_) mine.cooperates = true;
}

Room::~Room() {
  auto& devices = TheDevices();
  const std::lock_guard lock(devices.mutex);
  auto& mine = devices.all[device_];
  mine.taken -= blocks_ * each_;
  if (alone_) mine.cooperates = false;
  devices.changed.notify_all();
}

}  // namespace tutti::fake_gpu
