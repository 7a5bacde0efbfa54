// A task queue: a communicator and the tasks queued for it, which run one at a time in the order of issue. A process
// group has one queue for its collectives, and one for each direction, partner and tag of its sends and receives.
//
// Which thread runs a task. A waiting thread is idle anyway, so Wait runs the queued tasks itself, up to its own. An
// operation that is waited for at once thus costs no thread switch, which would take longer than a small all-reduce. A
// worker of the queue runs the tasks that no thread waits for. Waking it for every task would cost what running in
// the caller saves, so:
//   - it polls the queue every kPatience while tasks arrive, and runs a task that it saw at its previous look; more
//     rarely where waiting threads have taken many tasks at once, one after the other;
//   - it is woken at once (Hurry) when two tasks are queued, since then no thread waits for the first; when a caller
//     asks for a future or polls; and when a thread is about to block in another queue of the group, since that
//     operation may depend on a task in this one.
// A thread runs a task without holding the lock; `running_` keeps other threads from running one at the same time.
//
// Why this cannot deadlock. A waiter runs every queued task or, at its second look, the queue's worker does. Each
// queue thus behaves as if it had its own thread, and two ranks may wait in different orders in different queues.
// Within a queue, tasks run only in the order of issue, as c10d requires. A started operation always ends: it is
// matched, or it fails by the communicator's rules (docs/faults.md).
//
// Callbacks. A task's callbacks (futures) may issue tasks on this same queue and wait for them in any way. A thread
// in Wait runs tasks, but a thread that waits in a future runs none. So callbacks run after the queue is free for the
// next task, and a worker that enters callbacks goes off duty: once a task is queued, another worker goes on duty
// (workers.h). Some thread outside callbacks can therefore always take the next task, however deeply callbacks wait for
// each other. The number of workers is at most the number of concurrently running callbacks plus two.
//
// Order. Tasks issued by callbacks take their place in the order of issue like all others. When one task's callbacks
// run concurrently with another task's, or with a program that issues tasks, the program must ensure that all ranks
// issue in the same order.
//
// A task is `done` when its callbacks have run: after Wait its future is completed. Called in one of the task's own
// callbacks, Wait returns at once, because it would otherwise deadlock.
//
// Closing keeps running queued tasks for a while (kGrace), since another rank may need an operation that no thread here
// waited for. Then the communicator is stopped, and the remaining tasks fail. Closing does not wait for Abandonable
// tasks.
//
// Thread-safety: all functions may be called from any thread. The worker shares ownership of the queue, so a callback
// may release the last other reference.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "interop/torch/csrc/communicator.h"
#include "interop/torch/csrc/workers.h"

namespace tutti::pytorch {

class Task {
 public:
  virtual ~Task() = default;

  // Once true, results are in memory and Error may be called. Also true in the task's own callbacks.
  bool IsDone() const { return done_.load(std::memory_order_acquire) || CallbacksRunHere(); }
  // REQUIRES: IsDone().
  std::exception_ptr Error() const { return error_; }

 private:
  friend class TaskQueue;

  virtual void Run(tuttiComm_t comm) = 0;
  // `error` is how the task ended: null, or the exception. Returns the value for Error().
  virtual std::exception_ptr Ended(std::exception_ptr error) noexcept { return error; }
  // The program's callbacks, which may take arbitrarily long. Both REQUIRE that Ended was called.
  virtual bool HasCallbacks() const { return false; }
  virtual void RunCallbacks() noexcept {}
  virtual bool Abandonable() const { return false; }
  // Whether the calling thread is in one of the task's callbacks.
  bool CallbacksRunHere() const;

  std::chrono::steady_clock::time_point issued_;  // where the queue's worker looks rarely
  std::exception_ptr error_;                      // written before done_ is released
  std::atomic<bool> done_{false};
};

class TaskQueue : public std::enable_shared_from_this<TaskQueue> {
 public:
  using Maker = std::function<std::unique_ptr<Communicator>(const std::atomic<bool>& cancelled)>;

  // The thread that runs the first task calls `make`; without tasks it is never called. Empty: these tasks need no
  // communicator.
  explicit TaskQueue(Maker make);
  ~TaskQueue();  // REQUIRES: closed, or never used
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void Issue(std::shared_ptr<Task> task);
  // Both REQUIRE: the task was issued here.
  void Wait(const Task& task);
  // Returns false if the time ran out. Runs no task itself, because it could not leave a running task.
  bool WaitFor(const Task& task, std::chrono::milliseconds time);
  // Starts all queued tasks now.
  void Hurry();
  // The number of tasks issued and not yet started. Another thread may change it at any time.
  int waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // Permanently stops the queue: the running task and every later one fail. `why` is for HowFailed.
  void Stop(tuttiResult_t why = tuttiSuccess);
  // How the communicator failed, or making it; tuttiSuccess: it did not, or was stopped at the program's wish.
  tuttiResult_t HowFailed();
  // Closes the queue (see above), refuses later tasks, and frees the communicator.
  void Close();

 private:
  enum class Runner : bool { waiter, worker };
  // A task that no thread waits for within the worker's patience is one that the program overlaps with its work. After so
  // many tasks without one, the worker looks rarely, and the next such task begins late. Few enough for a program that
  // overlaps one call among many; enough for a thread that lost its core between issue and wait, which looks the same,
  // but happens a few times a second.
  static constexpr unsigned kTasksBeforeRareLooks = 1000;

  bool LooksRarely() const { return begun_ - overlapped_ >= kTasksBeforeRareLooks; }
  void EnsureWorker();
  void Work();
  // Returns whether there were callbacks; if so, a worker that calls this is off duty. Releases the lock before it may
  // free the task, whose tensors may wait for Python's lock; a thread that has that lock may wait for this one.
  // REQUIRES: `lock` is held, !running_, tasks are queued.
  bool RunHead(std::unique_lock<std::mutex>& lock, Runner runner);
  void RunCallbacks(Task& task, std::unique_lock<std::mutex>& lock, Runner runner);
  void RunOnCommunicator(Task& task);
  void StopCommunicator();
  bool OnlyAbandonableLeft() const;

  const Maker make_;
  std::atomic<bool> cancelled_{false};
  std::atomic<int> waiting_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::condition_variable worker_wakes_;
  std::deque<std::shared_ptr<Task>> tasks_;  // not begun
  std::shared_ptr<Task> current_;            // started, not ended
  bool running_ = false;
  bool hurry_ = false;
  bool worker_sleeps_ = false;
  bool closing_ = false;
  tuttiResult_t why_stopped_ = tuttiSuccess;
  unsigned begun_ = 0;       // tasks, so far
  unsigned overlapped_ = 0;  // `begun_` when the program last overlapped one
  Workers workers_;

  // Written under the lock by the thread that runs a task, and read under the lock by others.
  std::unique_ptr<Communicator> communicator_;
  std::exception_ptr not_made_;
};

// The facts about the group that a blocking thread needs.
class Siblings {
 public:
  virtual ~Siblings() = default;
  // Starts every task in the group's other queues that no thread waits for.
  virtual void HurryAllBut(const TaskQueue& queue) = 0;
  // The longest wait, if it was set after communicators were made, since those have their own timeouts; 0: their
  // timeouts apply.
  virtual std::chrono::milliseconds LimitOfWaits() const = 0;
};

}  // namespace tutti::pytorch
