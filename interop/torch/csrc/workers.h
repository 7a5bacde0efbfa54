// The threads of a task queue. At most one of them is *on duty* and runs the queued tasks. A worker that enters
// callbacks, which may wait for later tasks, is off duty until it returns. A thread that finds a task in the queue and
// no worker on duty calls another one (TaskQueue::EnsureWorker). One worker that is no longer needed stays as a spare,
// so that consecutive callbacks start no threads.
//
// Thread-safety: the queue's mutex guards everything; the caller of a function holds it.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace tutti::pytorch {

class Workers {
 public:
  bool IsOnDuty() const { return on_duty_; }
  // Wakes the spare, or starts a thread that runs `work`; that worker is now on duty. Throws std::system_error if the
  // system cannot start a thread. REQUIRES: !IsOnDuty().
  void Call(std::function<void()> work);

  // Called by a worker. Leave: goes off duty. Return: goes back on duty; false: the worker is not needed and must end.
  void Leave() { on_duty_ = false; }
  bool Return(std::unique_lock<std::mutex>& lock);
  // A worker calls this last.
  void End();

  // From now on no spare is kept.
  void Dismiss();
  // Waits until all workers except the caller have ended. Unlocks while it waits. REQUIRES: Dismiss.
  void Join(std::unique_lock<std::mutex>& lock);
  bool IsOneOfThem() const;

 private:
  void JoinEnded();

  std::condition_variable called_;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // have called End(), and are about to return
  bool on_duty_ = false;
  bool has_spare_ = false;
  bool is_called_ = false;  // the spare is
  bool dismissed_ = false;
};

}  // namespace tutti::pytorch
