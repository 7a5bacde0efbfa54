#include "interop/torch/csrc/task_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <thread>

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

// How long a closing task stream waits for the work on its stream, and how often it checks.
constexpr auto kTaskStreamGrace = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::microseconds(200);

c10::Stream NewStream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

}  // namespace

TaskStream::TaskStream(c10::Device device)
    : stream_(NewStream(device)),
      native_stream_(NativeStreamOf(device.type())(stream_)),
      scratches_{std::make_shared<Scratch>(device), std::make_shared<Scratch>(device)} {}

void TaskStream::Open(tuttiComm_t comm) {
  const std::lock_guard lock(mutex_);
  comm_ = comm;
  open_.store(true, std::memory_order_release);
}

void TaskStream::WaitForStream() const {
  const auto until = Clock::now() + kTaskStreamGrace;
  try {
    while (!stream_.query() && Clock::now() < until) std::this_thread::sleep_for(kPause);
    if (!stream_.query()) static_cast<void>(tuttiCommRevoke(comm_, TUTTI_REVOKE_DEFAULT));
  } catch (const std::exception&) {
    // The device is lost or the process is exiting, so there is nothing to wait for.
  }
}

void TaskStream::Close() {
  if (Failure() == nullptr) WaitForStream();
  static_cast<void>(Failure());  // fixes failure_ before comm_ is gone
  const std::lock_guard lock(mutex_);
  comm_ = nullptr;
}

std::exception_ptr TaskStream::Failure() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr || failure_ != nullptr) return failure_;
  auto result = tuttiSuccess;
  try {
    Check(tuttiCommGetAsyncError(comm_, &result), comm_);
    if (result == tuttiSuccess) return nullptr;
    // Only the code is known; the next call gives the message.
    Check(tuttiBarrier(comm_, native_stream_), comm_);
    throw pytorch::Failure(result, std::string("tutti: ") + tuttiGetErrorString(result));
  } catch (...) {
    failure_ = std::current_exception();
  }
  return failure_;
}

}  // namespace tutti::pytorch
