#include "testing/fake_gpu/stream/hardware_queue.h"

#include <map>
#include <vector>

#include "testing/fake_gpu/environment.h"

namespace tutti::fake_gpu {
namespace {

thread_local QueueHead* head_of_thread = nullptr;

// Streams take the queues in turn.
struct DeviceQueues {
  std::vector<std::shared_ptr<HardwareQueue>> all;
  std::size_t next = 0;
};

struct Queues {
  std::mutex mutex;
  std::map<CUdevice, DeviceQueues> by_device;
};

Queues& TheQueues() {
  static auto* queues = new Queues;
  return *queues;
}

}  // namespace

std::shared_ptr<HardwareQueue> HardwareQueue::ForNextStream(CUdevice device) {
  const auto count = static_cast<std::size_t>(TheEnvironment().queues);
  if (count == 0) return nullptr;
  auto& queues = TheQueues();
  const std::lock_guard lock(queues.mutex);
  auto& of_device = queues.by_device[device];
  while (of_device.all.size() < count) of_device.all.push_back(std::make_shared<HardwareQueue>());
  return of_device.all[of_device.next++ % count];
}

std::uint64_t HardwareQueue::Enter() {
  const std::lock_guard lock(mutex_);
  return entered_++;
}

void HardwareQueue::AwaitTurn(std::uint64_t place) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return head_ >= place; });
}

void HardwareQueue::Leave(std::uint64_t place) {
  const std::lock_guard lock(mutex_);
  if (head_ != place) return;
  ++head_;
  changed_.notify_all();
}

QueueHead::QueueHead(HardwareQueue* queue, std::uint64_t place) : queue_(queue), place_(place) {
  if (queue_ == nullptr) return;
  queue_->AwaitTurn(place_);
  head_of_thread = this;
}

QueueHead::~QueueHead() {
  Leave();
  head_of_thread = nullptr;
}

void QueueHead::Begun() {
  if (head_of_thread != nullptr) head_of_thread->Leave();
}

void QueueHead::Leave() {
  if (queue_ != nullptr) queue_->Leave(place_);
}

}  // namespace tutti::fake_gpu
