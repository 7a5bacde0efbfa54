#include "src/stream.h"

#include <memory>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/quiet_thread.h"

namespace tutti {
namespace {

struct Register {
  std::mutex mutex;
  std::unordered_map<tuttiStream_t, std::unique_ptr<Stream>> streams;
};

Register& TheRegister() {
  static Register streams;
  return streams;
}

[[noreturn]] void RefuseStream(tuttiStream_t handle) {
  if (handle == nullptr) Throw(tuttiInvalidArgument, "stream is NULL");
  Throw(tuttiInvalidArgument, "stream {} was not made by tuttiStreamCreate, or was destroyed before", handle);
}

}  // namespace

tuttiStream_t NewStream() {
  auto stream = std::make_unique<Stream>();
  auto* const handle = stream.get();
  auto& all = TheRegister();
  const std::lock_guard lock(all.mutex);
  all.streams.emplace(handle, std::move(stream));
  return handle;
}

void DestroyStream(tuttiStream_t handle) {
  std::unique_ptr<Stream> last;  // waits when it goes, without the lock
  auto& all = TheRegister();
  const std::lock_guard lock(all.mutex);
  const auto found = all.streams.find(handle);
  if (found == all.streams.end()) RefuseStream(handle);
  last = std::move(found->second);
  all.streams.erase(found);
}

Stream* FindStream(tuttiStream_t handle) {
  auto& all = TheRegister();
  const std::lock_guard lock(all.mutex);
  const auto found = all.streams.find(handle);
  return found == all.streams.end() ? nullptr : found->second.get();
}

Stream& CheckedStream(tuttiStream_t handle) {
  auto* const stream = FindStream(handle);
  if (stream == nullptr) RefuseStream(handle);
  return *stream;
}

Stream::Stream() {
  thread_ = QuietThread([this] { Work(); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::Enqueue(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

tuttiResult_t Stream::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !running_; });
  return std::exchange(first_failure_, tuttiSuccess);
}

tuttiResult_t Stream::Query() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !running_ ? first_failure_ : tuttiInProgress;
}

void Stream::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    lock.unlock();
    const auto result = task();
    lock.lock();
    running_ = false;
    if (first_failure_ == tuttiSuccess) first_failure_ = result;
    changed_.notify_all();
  }
}

}  // namespace tutti
