#include "testing/fake_gpu/stream/stream.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/stream/capture.h"

namespace tutti::fake_gpu {
namespace {

std::atomic<std::uint64_t> waits_of_callers{0};

// Streams without a handle of their own.
struct Unnamed {
  std::mutex mutex;
  std::map<CUdevice, std::shared_ptr<Stream>> null_streams;
  std::vector<std::weak_ptr<Stream>> of_threads;
};

Unnamed& TheUnnamed() {
  static auto* unnamed = new Unnamed;
  return *unnamed;
}

std::shared_ptr<Stream> NullStream(CUdevice device) {
  auto& unnamed = TheUnnamed();
  const std::lock_guard lock(unnamed.mutex);
  auto& stream = unnamed.null_streams[device];
  if (stream == nullptr) stream = std::make_shared<Stream>(device, true);
  return stream;
}

// Closed when the thread ends.
class OwnStreams {
 public:
  OwnStreams() = default;
  OwnStreams(const OwnStreams&) = delete;
  OwnStreams& operator=(const OwnStreams&) = delete;
  ~OwnStreams() {
    for (auto& [device, stream] : streams_) stream->Close();
  }

  std::shared_ptr<Stream> Of(CUdevice device) {
    auto& stream = streams_[device];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>(device, true);
      auto& unnamed = TheUnnamed();
      const std::lock_guard lock(unnamed.mutex);
      std::erase_if(unnamed.of_threads, [](const auto& each) { return each.expired(); });
      unnamed.of_threads.push_back(stream);
    }
    return stream;
  }

 private:
  std::map<CUdevice, std::shared_ptr<Stream>> streams_;
};

// Moments that the stream's next work waits for: the null stream and the other blocking streams wait for each other.
std::vector<Moment> ImpliedOrder(const Stream& stream) {
  std::vector<Moment> before;
  if (!stream.blocking()) return before;
  if (!IsNullStream(stream)) {
    before.push_back(NullStream(stream.device())->Now());
  } else {
    for (const auto& other : StreamsOf(stream.device())) {
      if (other->blocking() && other.get() != &stream) before.push_back(other->Now());
    }
  }
  std::erase_if(before, [](const Moment& moment) { return moment.Passed(); });
  return before;
}

// Streams promise nothing of when their work begins. Some begins late, if the environment says so.
void BeLate() {
  const int most = TheEnvironment().late_us;
  if (most == 0) return;
  thread_local std::minstd_rand random(std::random_device{}());
  constexpr unsigned kOneIn = 3;
  if (random() % kOneIn != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(most)));
}

}  // namespace

bool Moment::Passed() const {
  if (stream == nullptr) return true;
  const std::lock_guard lock(stream->mutex_);
  return stream->done_ >= ticket;
}

void Moment::Wait() const {
  if (stream == nullptr) return;
  std::unique_lock lock(stream->mutex_);
  stream->changed_.wait(lock, [&] { return stream->done_ >= ticket; });
}

void Moment::MakeCallerWait() const {
  waits_of_callers.fetch_add(1, std::memory_order_relaxed);
  Wait();
}

std::uint64_t WaitsOfCallers() { return waits_of_callers.load(std::memory_order_relaxed); }

Moment Stream::Push(Work work, InQueue in_queue) {
  if (TheEnvironment().synchronous) {
    RunInCaller(work);
    return Now();
  }
  std::unique_lock lock(mutex_);
  if (!has_thread_) {
    std::thread([self = shared_from_this()] { self->Drain(); }).detach();
    has_thread_ = true;
  }
  const auto depth = static_cast<std::uint64_t>(TheEnvironment().queue_depth);
  changed_.wait(lock, [&] { return depth == 0 || pushed_ - done_ < depth; });
  const bool queued = queue_ != nullptr && in_queue == InQueue::kYes;
  work_.push_back({std::move(work), queued ? std::optional(queue_->Enter()) : std::nullopt});
  changed_.notify_all();
  return {shared_from_this(), ++pushed_};
}

Moment Stream::Now() {
  const std::lock_guard lock(mutex_);
  return {shared_from_this(), pushed_};
}

void Stream::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

// Runs the work in turn with the stream's other callers.
void Stream::RunInCaller(const Work& work) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = pushed_++;
  changed_.wait(lock, [&] { return done_ == before; });
  lock.unlock();
  work();
  lock.lock();
  ++done_;
  changed_.notify_all();
}

void Stream::Drain() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !work_.empty() || closed_; });
    if (work_.empty()) return;
    Pending next = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    {
      const QueueHead head(next.place ? queue_.get() : nullptr, next.place.value_or(0));
      BeLate();
      next.work();
    }
    next.work = nullptr;  // frees what it holds before any thread sees it as done
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

std::shared_ptr<Stream> StreamOf(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return NullStream(CurrentDevice());
  if (handle == CU_STREAM_PER_THREAD) {
    thread_local OwnStreams own;
    return own.Of(CurrentDevice());
  }
  return Handles<CUstream, Stream>().Find(handle);
}

bool IsNullStream(const Stream& stream) { return NullStream(stream.device()).get() == &stream; }

std::vector<std::shared_ptr<Stream>> StreamsOf(CUdevice device) {
  auto streams = Handles<CUstream, Stream>().All();
  std::erase_if(streams, [&](const auto& each) { return each->device() != device; });
  streams.push_back(NullStream(device));
  auto& unnamed = TheUnnamed();
  const std::lock_guard lock(unnamed.mutex);
  for (const auto& weak : unnamed.of_threads) {
    if (auto stream = weak.lock(); stream != nullptr && stream->device() == device) streams.push_back(stream);
  }
  return streams;
}

void WaitForAll(CUdevice device) {
  for (const auto& stream : StreamsOf(device)) stream->Now().MakeCallerWait();
}

Moment Enqueue(const std::shared_ptr<Stream>& stream, Work work, InQueue in_queue) {
  if (Recorded(*stream, work)) return {};
  auto before = ImpliedOrder(*stream);
  if (before.empty()) return stream->Push(std::move(work), in_queue);
  return stream->Push(
      [before = std::move(before), work = std::move(work)] {
        for (const auto& moment : before) moment.Wait();
        work();
      },
      in_queue);
}

}  // namespace tutti::fake_gpu
