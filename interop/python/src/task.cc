#include "task.h"

#include <utility>

namespace nb = nanobind;

namespace tutti_python {
namespace {

tuttiResult_t RunCall(const Call& call) {
  const tutti::CallsFrom named(tutti::python_site::AsCallSite(call.site.get()));
  return call.run();
}

Outcome RunGroup(const std::vector<Call>& calls) {
  auto code = tuttiGroupStart();
  if (code != tuttiSuccess) return {code, tuttiGetLastError(nullptr)};
  for (const auto& call : calls) {
    code = RunCall(call);
    if (code == tuttiSuccess) continue;
    Outcome failed{code, tuttiGetLastError(call.handle->get())};
    tuttiGroupEnd();  // runs nothing and returns the same failure
    return failed;
  }
  code = tuttiGroupEnd();
  return {code, code == tuttiSuccess ? "" : tuttiGetLastError(nullptr)};
}

}  // namespace

Outcome RunCalls(const std::vector<Call>& calls) {
  if (calls.size() != 1) return RunGroup(calls);
  const auto& call = calls.front();
  const auto code = RunCall(call);
  return {code, code == tuttiSuccess ? "" : tuttiGetLastError(call.handle->get())};
}

Task::Task(std::vector<Call> calls, KeptPointer kept) : calls_(std::move(calls)), kept_(std::move(kept)) {
  for (const auto& call : calls_) turns_.Take(call.handle);
}

bool Task::Run() {
  turns_.AwaitWithoutGil();
  auto outcome = RunCalls(calls_);
  bool must_call = false;
  {
    const std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    done_ = true;
    must_call = !kept_->callbacks.empty();
  }
  ended_.notify_all();
  turns_.End();
  return must_call;
}

void Task::Finish() {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    callbacks.swap(kept_->callbacks);
  }
  for (const auto& callback : callbacks) {
    try {
      callback.function(callback.argument);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(callback.function);
    }
  }
  FreeArrays();
}

void Task::FreeArrays() {
  // What frees an array may run Python code, and another thread may come here meanwhile.
  std::vector<std::unique_ptr<Arrays>> arrays;
  arrays.swap(kept_->arrays);
}

bool Task::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Task::AwaitFor(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, time, [this] { return done_; });
}

void Task::AddCallback(nb::object callback, nb::object argument) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      kept_->callbacks.push_back({std::move(callback), std::move(argument)});
      return;
    }
  }
  callback(argument);
}

}  // namespace tutti_python
