// A channel: a communicator and the tasks that wait for it, which run one after the other in the order of issue. A
// process group has one for its collectives, and one for each direction, partner and tag of its sends and receives.
//
// Who runs a task. A thread that waits has nothing better to do, so Wait runs the tasks itself, up to its own: an
// operation that is waited for at once costs no change of thread, which would take longer than a small all-reduce. For
// tasks that nobody waits for the channel has a worker. To wake it for every task would cost what running in the caller
// saves, so:
//   - it looks at the queue by itself, twice a kPatience while tasks come, and takes what it has seen before;
//   - it is woken at once (Hurry) when there are two tasks in the queue, for then nobody waits for the first; when
//     somebody asks for a future or polls; and when somebody is about to block in another channel of the group, for
//     what he waits for may depend on this one.
// Whoever runs a task runs it without the lock, and nobody else runs one meanwhile (`running_`).
//
// Why nothing waits for ever on account of this. Every task in a queue is run by a waiter or, within two kPatience, by
// its channel's own worker; so it is as if each channel had a thread of its own, and two ranks may wait in different
// orders in different channels. Within a channel the order of issue is the only one, as c10d demands. An operation that
// has begun ends by itself: it is matched, or fails by the communicator's rules (docs/faults.md).
//
// Callbacks. A task may have callbacks (futures), and these may issue tasks on this same channel and wait for them, in
// any way. A thread in Wait runs tasks, but a thread that waits in a future runs none. So callbacks run after the
// channel is free for the next task, and a worker that enters callbacks is off duty: as soon as there is a task in the
// queue, another worker is on duty (workers.h). So there is always a thread outside callbacks that can take the next
// task, however deeply callbacks wait in each other. The number of workers is at most that of callbacks that run at the
// same time, plus two.
//
// The order. Tasks that callbacks issue have their place in the order of issue, as all others do. When the callbacks of
// one task run at the same time as those of another, or as a program that issues, the program must make sure that all
// ranks issue in the same order.
//
// A task is `done` when its callbacks have run: after Wait its future is completed. In a callback of the task itself,
// where Wait would last for ever, it returns at once.
//
// Closing runs what is still queued, for a while (kGrace), since an operation that nobody waited for may be one that
// another rank needs; then the communicator is stopped, and the rest fails. Tasks that say so (Abandonable) are not
// waited for.
//
// Thread-safety: all functions may be called from any thread. The worker owns the channel with the others, so a
// callback may give up the last other owner.
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

  // Once true, results are in memory, and Error may be asked. Also true in the task's own callbacks.
  bool IsDone() const { return done_.load(std::memory_order_acquire) || CallbacksRunHere(); }
  // REQUIRES: IsDone().
  std::exception_ptr Error() const { return error_; }

 private:
  friend class Channel;

  virtual void Run(tuttiComm_t comm) = 0;
  // `error` is how the task ended: null, or the exception. Returns what Error() is to return.
  virtual std::exception_ptr Ended(std::exception_ptr error) noexcept { return error; }
  // The program's callbacks, which may take as long as they like. Both REQUIRE that Ended was called.
  virtual bool HasCallbacks() const { return false; }
  virtual void RunCallbacks() noexcept {}
  virtual bool Abandonable() const { return false; }
  // Whether the calling thread is in one of the task's callbacks.
  bool CallbacksRunHere() const;

  std::exception_ptr error_;  // written before done_ is released
  std::atomic<bool> done_{false};
};

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Maker = std::function<std::unique_ptr<Communicator>(const std::atomic<bool>& cancelled)>;

  // `make` is called by whoever runs the first task; not at all if there is none. Empty: these tasks need no
  // communicator.
  explicit Channel(Maker make);
  ~Channel();  // REQUIRES: closed, or never used
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void Issue(std::shared_ptr<Task> task);
  // REQUIRES, of both: the task was issued here.
  void Wait(const Task& task);
  // False: it took longer. Does not run anything itself, because what runs cannot be left.
  bool WaitFor(const Task& task, std::chrono::milliseconds time);
  // Whatever is queued is begun now.
  void Hurry();
  // How many tasks have been issued and not begun. Another thread may change that at any time.
  int waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // Ends the running task for good: it fails, and so does every later one.
  void Stop();
  // See above. Whatever is issued afterwards is refused. Also frees the communicator.
  void Close();

 private:
  enum class Runner : bool { waiter, worker };

  void EnsureWorker();
  void Work();
  // Returns whether there were callbacks; if so, a worker that calls this is off duty. REQUIRES: `lock` is held,
  // !running_, the queue is not empty.
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
  std::deque<std::shared_ptr<Task>> queue_;  // not begun
  std::shared_ptr<Task> current_;            // begun, and not ended
  bool running_ = false;
  bool hurry_ = false;
  bool worker_sleeps_ = false;
  bool closing_ = false;
  unsigned begun_ = 0;  // tasks, so far
  Workers workers_;

  // Written by whoever runs a task, and read under the lock by who stops it.
  std::unique_ptr<Communicator> communicator_;
  std::exception_ptr not_made_;
};

// The facts about the group that a blocking thread needs.
class Siblings {
 public:
  virtual ~Siblings() = default;
  // Begins every task in the group's other channels that no thread waits for.
  virtual void HurryAllBut(const Channel& channel) = 0;
  // The longest wait, as set when there were communicators already, which have a timeout of their own; 0: their
  // timeouts apply.
  virtual std::chrono::milliseconds LimitOfWaits() const = 0;
};

}  // namespace tutti::pytorch
