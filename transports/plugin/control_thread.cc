#include "transports/plugin/control_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>

#include "base/error.h"
#include "base/process_mark.h"
#include "base/threads/quiet_thread.h"

namespace tutti::plugin {

struct ControlThread::Worker {
  const Birthmark process;
  std::mutex mutex;
  std::condition_variable asked;
  std::condition_variable answered;
  std::deque<Job*> jobs;

  [[noreturn]] void Serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      asked.wait(lock, [&] { return !jobs.empty(); });
      auto& job = *jobs.front();
      jobs.pop_front();
      lock.unlock();
      job.function(job.argument);
      lock.lock();
      job.done = true;
      answered.notify_all();
    }
  }
};

std::shared_ptr<ControlThread::Worker> ControlThread::Current() {
  const std::lock_guard lock(mutex_);
  return worker_;
}

void ControlThread::Start() {
  const std::lock_guard lock(mutex_);
  // A forked child leaves the parent's worker alone: what its thread held when it was forked stays as it was. The copy of
  // the pointer that the thread had is never released, so the worker is not destroyed.
  if (worker_ != nullptr && worker_->process.OfThisProcess()) return;
  auto worker = std::make_shared<Worker>();
  try {
    QuietThread([worker] { worker->Serve(); }).detach();
  } catch (const std::system_error& error) {
    Throw(tuttiSystemError, "cannot start a thread for the net plug-in: {}", error.what());
  }
  worker_ = std::move(worker);
}

void ControlThread::RunJob(Job job) {
  const auto worker = Current();
  std::unique_lock lock(worker->mutex);
  worker->jobs.push_back(&job);
  worker->asked.notify_one();
  worker->answered.wait(lock, [&] { return job.done; });
}

}  // namespace tutti::plugin
