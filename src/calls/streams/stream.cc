#include "src/calls/streams/stream.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/numbers/float_modes.h"
#include "base/threads/quiet_thread.h"

namespace tutti::calls {

struct Stream::State {
  struct Queued {
    Task task;
    FloatModes modes;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Queued> tasks;
  bool running = false;
  bool ending = false;
  std::uint64_t queued = 0, done = 0;  // tasks so far
  tuttiResult_t first_failure = tuttiSuccess;

  bool idle() const { return tasks.empty() && !running; }
};

Stream::Stream() : state_(std::make_shared<State>()) {
  thread_ = QuietThread([state = state_] { Work(*state); });
}

Stream::~Stream() {
  if (thread_.joinable()) Finish();
}

void Stream::Enqueue(Task task) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->ending) {
      Throw(tuttiInvalidArgument, "stream {} has been destroyed", static_cast<const void*>(this));
    }
    state_->tasks.push_back({std::move(task), FloatModes::OfThisThread()});
    ++state_->queued;
  }
  state_->changed.notify_all();
}

tuttiResult_t Stream::Synchronize() {
  std::unique_lock lock(state_->mutex);
  // Not until it is idle: other threads may go on queueing.
  state_->changed.wait(lock, [&, before = state_->queued] { return state_->done >= before; });
  return std::exchange(state_->first_failure, tuttiSuccess);
}

tuttiResult_t Stream::Query() {
  const std::lock_guard lock(state_->mutex);
  return state_->idle() ? state_->first_failure : tuttiInProgress;
}

bool Stream::End() {
  bool idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    idle = state_->idle();
  }
  state_->changed.notify_all();
  return idle;
}

void Stream::Finish() {
  End();
  thread_.join();
}

void Stream::Leave() {
  if (End()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Stream::Work(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock, [&] { return !state.tasks.empty() || state.ending; });
    if (state.tasks.empty()) return;
    auto [task, modes] = std::move(state.tasks.front());
    state.tasks.pop_front();
    state.running = true;
    lock.unlock();
    modes.Apply();
    const auto result = task();
    task = nullptr;  // frees what it holds before the stream is idle
    lock.lock();
    state.running = false;
    ++state.done;
    if (state.first_failure == tuttiSuccess) state.first_failure = result;
    state.changed.notify_all();
  }
}

}  // namespace tutti::calls
