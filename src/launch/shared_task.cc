// One task of several streams: how the streams meet.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/threads/made_once.h"
#include "src/launch/stream.h"

namespace tutti::launch {
namespace {

class SharedTask {
 public:
  SharedTask(std::size_t streams, std::function<tuttiResult_t()> work) : missing_(streams), work_(std::move(work)) {}

  // Runs in the thread of each stream.
  tuttiResult_t Arrive(const std::function<bool()>& is_void) {
    // The last stream to arrive does the work for all. acq_rel: it must see what the others' earlier tasks have done.
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Conclude(work_());
      work_ = nullptr;
    }
    std::unique_lock lock(mutex_);
    while (!result_) {
      concluded_.wait_for(lock, kLookEvery);
      if (!result_ && is_void()) return tuttiRemoteError;
    }
    return *result_;
  }

  // Some streams will not arrive, so the work is not done.
  void Cancel() {
    work_ = nullptr;
    Conclude(tuttiInvalidArgument);
  }

 private:
  static constexpr std::chrono::milliseconds kLookEvery{20};

  void Conclude(tuttiResult_t result) {
    {
      const std::lock_guard lock(mutex_);
      result_ = result;
    }
    concluded_.notify_all();
  }

  std::atomic<std::size_t> missing_;
  std::function<tuttiResult_t()> work_;
  std::mutex mutex_;
  std::condition_variable concluded_;
  std::optional<tuttiResult_t> result_;
};

}  // namespace

ForkSafeMutex& QueueingOrder() {
  static constinit MadeOnce<ForkSafeMutex> mutex;
  return mutex.Get();
}

void EnqueueOnAll(std::span<const SharedPart> parts, std::function<tuttiResult_t()> work) {
  if (parts.size() == 1) {
    parts.front().stream->Enqueue(std::move(work));
    return;
  }
  const auto task = std::make_shared<SharedTask>(parts.size(), std::move(work));
  try {
    for (const auto& [stream, is_void] : parts) {
      stream->Enqueue([task, is_void = is_void] { return task->Arrive(is_void); });
    }
  } catch (...) {
    task->Cancel();
    throw;
  }
}

}  // namespace tutti::launch
