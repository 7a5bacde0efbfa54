#include "stream.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace nb = nanobind;

namespace tutti_python {
namespace {

// How often a wait looks for signals.
constexpr std::chrono::milliseconds kSignalPeriod(50);
// The arrays of so many calls may wait to be freed.
constexpr std::size_t kMostFinished = 64;

}  // namespace

struct Stream::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Task>> queue;      // under mutex
  std::shared_ptr<Task> last;                   // the last one queued; under mutex
  bool ending = false;                          // under mutex
  bool ended = false;                           // under mutex
  std::vector<std::shared_ptr<Task>> finished;  // the thread's
  std::mutex gil_mutex;                         // held by the thread while it takes and has the GIL
  bool detached = false;                        // under gil_mutex
  const pid_t process = getpid();
};

nb::object Work::Wait(std::optional<double> seconds) const {
  using Clock = std::chrono::steady_clock;
  // Longer waits count as endless, because the clock's type could not hold them.
  constexpr double kEndless = 1e9;
  std::optional<Clock::time_point> deadline;
  if (seconds && std::isfinite(*seconds) && *seconds < kEndless) {
    deadline = Clock::now() +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(*seconds, 0.0)));
  }
  for (bool done = task_->done(); !done;) {
    auto slice = kSignalPeriod;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      if (left.count() <= 0) {
        PyErr_SetString(PyExc_TimeoutError, "the call on the stream is not done; it goes on");
        throw nb::python_error();
      }
      slice = std::min(slice, left);
    }
    {
      const nb::gil_scoped_release released;
      done = task_->AwaitFor(slice);
    }
    CheckSignals();
  }
  task_->FreeArrays();
  const auto& outcome = task_->outcome();
  if (outcome.code != tuttiSuccess) Fail(outcome.code, outcome.message);
  return task_->result();
}

void Work::AddCallback(nb::object callback, nb::object argument) const {
  task_->AddCallback(std::move(callback), std::move(argument));
}

Stream::Stream() : state_(std::make_shared<State>()), thread_(&Stream::Loop, state_) {}

Stream::~Stream() {
  if (!thread_.joinable()) return;
  if (state_->process == getpid()) EndQueue();
  thread_.detach();
}

void Stream::RequireThisProcess() const {
  if (state_->process != getpid()) {
    Fail(tuttiInvalidUsage, "the stream belongs to the process that made it, and this is a child of it");
  }
}

Work Stream::Enqueue(std::vector<Call> calls, KeptPointer kept) {
  RequireThisProcess();
  if (closed()) Fail(tuttiInvalidUsage, "the stream is closed");
  auto task = std::make_shared<Task>(std::move(calls), std::move(kept));
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back(task);
    state_->last = task;
  }
  state_->changed.notify_one();
  return Work(std::move(task));
}

bool Stream::closed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ending;
}

void Stream::Synchronize() {
  RequireThisProcess();
  std::shared_ptr<Task> last;
  {
    const std::lock_guard lock(state_->mutex);
    last = state_->last;
  }
  if (last == nullptr) return;
  for (bool done = false; !done;) {
    {
      const nb::gil_scoped_release released;
      done = last->AwaitFor(kSignalPeriod);
    }
    CheckSignals();
  }
}

void Stream::EndQueue() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_one();
}

void Stream::Close() {
  RequireThisProcess();
  Synchronize();
  if (closed() || !thread_.joinable()) return;
  EndQueue();
  const nb::gil_scoped_release released;
  thread_.join();
}

bool Stream::Tail::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ended;
}

void Stream::Tail::Detach() const {
  if (state_->process != getpid()) return;
  const nb::gil_scoped_release released;
  const std::lock_guard lock(state_->gil_mutex);
  state_->detached = true;
}

void Stream::FinishTasks(State& state) {
  const std::lock_guard lock(state.gil_mutex);
  if (state.detached || state.finished.empty()) return;
  const nb::gil_scoped_acquire acquired;
  for (const auto& task : state.finished) task->Finish();
  state.finished.clear();
}

void Stream::Loop(const std::shared_ptr<State>& state) {
  Turns::in_stream = true;
  while (true) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return state->ending || !state->queue.empty(); });
      if (state->queue.empty()) {
        state->ended = true;
        return;
      }
      task = std::move(state->queue.front());
      state->queue.pop_front();
    }
    const bool must_call = task->Run();
    state->finished.push_back(std::move(task));
    bool idle = false;
    {
      const std::lock_guard lock(state->mutex);
      idle = state->queue.empty();
    }
    if (must_call || idle || state->finished.size() >= kMostFinished) FinishTasks(*state);
  }
}

}  // namespace tutti_python
