// The threads of a channel. At most one of them is *on duty*: it looks after the channel's queue. A worker that enters
// callbacks, which may wait for later tasks, is off duty until it returns. A thread that finds a task in the queue and
// no worker on duty calls another one (Channel::EnsureWorker). One worker that is not needed any more stays as a spare,
// so that callbacks that follow each other start no threads.
//
// Thread-safety: the channel's mutex guards everything; the caller of a function holds it.
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
  // Calls the spare, or starts a thread that runs `work`. It is on duty from now on. Throws std::system_error if the
  // system gives no thread. REQUIRES: !IsOnDuty().
  void Call(std::function<void()> work);

  // Called by a worker. Leave: it goes off duty. Return: back on duty; false: it is not needed, and ends.
  void Leave() { on_duty_ = false; }
  bool Return(std::unique_lock<std::mutex>& lock);
  // The last thing that a worker does.
  void End();

  // From now on there are no spares.
  void Dismiss();
  // Waits until all workers except the caller have ended. Unlocks meanwhile. REQUIRES: Dismiss.
  void Join(std::unique_lock<std::mutex>& lock);
  bool IsOneOfThem() const;

 private:
  void JoinEnded();

  std::condition_variable called_;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // have called End(), and only return from their function
  bool on_duty_ = false;
  bool has_spare_ = false;
  bool is_called_ = false;  // the spare
  bool dismissed_ = false;
};

}  // namespace tutti::pytorch
