// Events: points in streams that other work waits for.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/stream/capture.h"
#include "testing/fake_gpu/stream/stream.h"

namespace tutti::fake_gpu {
namespace {

using Clock = std::chrono::steady_clock;

// One recording of an event.
struct Record {
  Moment moment;
  std::shared_ptr<std::atomic<Clock::time_point>> time;  // null: never recorded
  Captured captured;                                     // instead, if the stream was captured
};

class Event {
 public:
  Event(CUdevice device, bool timed) : device(device), timed(timed) {}

  const CUdevice device;
  const bool timed;

  Record Last() const {
    const std::lock_guard lock(mutex_);
    return record_;
  }
  void Set(Record record) {
    const std::lock_guard lock(mutex_);
    record_ = std::move(record);
  }

 private:
  mutable std::mutex mutex_;
  Record record_;
};

// The nodes that an event recorded now in `stream` stands for, if the stream is captured.
Captured CapturedBy(Stream& stream) {
  const std::lock_guard lock(CaptureLock());
  if (stream.capture == nullptr) return {};
  Require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return {stream.capture, stream.capture->Last(stream)};
}

// Orders the stream's next work after a captured event; a stream outside the capture joins it.
void Join(const std::shared_ptr<Stream>& stream, const Captured& event) {
  const std::lock_guard lock(CaptureLock());
  Require(!event.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  Require(!event.capture->ended(), CUDA_ERROR_CAPTURED_EVENT);
  if (stream->capture == nullptr) {
    Require(!IsNullStream(*stream), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    stream->capture = event.capture;
  } else if (stream->capture != event.capture) {
    stream->capture->invalid = event.capture->invalid = true;
    Fail(CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  event.capture->ComeAfter(*stream, event.nodes);
}

float Milliseconds(CUevent start, CUevent end) {
  const auto first = Handles<CUevent, Event>().Find(start);
  const auto second = Handles<CUevent, Event>().Find(end);
  const auto from = first->Last();
  const auto to = second->Last();
  Require(first->timed && second->timed && from.time != nullptr && to.time != nullptr, CUDA_ERROR_INVALID_HANDLE);
  Require(from.moment.Passed() && to.moment.Passed(), CUDA_ERROR_NOT_READY);
  return std::chrono::duration<float, std::milli>(to.time->load() - from.time->load()).count();
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  return Answer([&] {
    const bool timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    Require((flags & CU_EVENT_INTERPROCESS) == 0, CUDA_ERROR_NOT_SUPPORTED);
    *handle = Handles<CUevent, Event>().Add(std::make_shared<Event>(CurrentDevice(), timed));
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return Answer([&] { Handles<CUevent, Event>().Remove(handle); });
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return Answer([&] {
    const auto event = Handles<CUevent, Event>().Find(handle);
    const auto stream = StreamOf(stream_handle);
    Require(event->device == stream->device(), CUDA_ERROR_INVALID_HANDLE);
    if (auto captured = CapturedBy(*stream); captured.capture != nullptr) {
      event->Set({.moment = {}, .time = nullptr, .captured = std::move(captured)});
      return;
    }
    auto time = std::make_shared<std::atomic<Clock::time_point>>();
    // Whether it holds up a GPU's queue is not known (README.md). Here it does not.
    auto moment = Enqueue(
        stream, [time] { *time = Clock::now(); }, InQueue::kNo);
    event->Set({.moment = std::move(moment), .time = std::move(time), .captured = {}});
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return Answer([&] {
    const auto record = Handles<CUevent, Event>().Find(handle)->Last();
    Require(record.captured.capture == nullptr, CUDA_ERROR_CAPTURED_EVENT);
    ForbidWhileCapturing();
    record.moment.MakeCallerWait();
  });
}

CUresult cuEventQuery(CUevent handle) {
  return Answer([&] {
    const auto record = Handles<CUevent, Event>().Find(handle)->Last();
    Require(record.captured.capture == nullptr, CUDA_ERROR_CAPTURED_EVENT);
    ForbidWhileCapturing();
    Require(record.moment.Passed(), CUDA_ERROR_NOT_READY);
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return Answer([&] { *milliseconds = Milliseconds(start, end); });
}

// The older entry point, whose name <cuda.h> maps to the one above.
extern "C" CUresult EventElapsedTimeV1(float* milliseconds, CUevent start, CUevent end) __asm__("cuEventElapsedTime");
CUresult EventElapsedTimeV1(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime(milliseconds, start, end);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  return Answer([&] {
    Require((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) == 0, CUDA_ERROR_INVALID_VALUE);
    const auto stream = StreamOf(handle);
    const auto record = Handles<CUevent, Event>().Find(event)->Last();
    if (record.captured.capture != nullptr) return Join(stream, record.captured);
    if (CapturedBy(*stream).capture != nullptr) Fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!record.moment.Passed()) Enqueue(stream, [moment = record.moment] { moment.Wait(); });
  });
}
