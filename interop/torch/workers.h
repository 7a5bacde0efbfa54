// The threads of a channel, and which of them is *on duty*: looks after the channel's queue. At most one is. One that
// goes into callbacks, which may wait for later tasks, is off duty until it returns; whoever finds a task in the queue
// and nobody on duty calls another (Ensure). One worker that is not needed any more stays as a spare, so that callbacks
// that follow each other start no threads.
//
// Thread-safety: everything is guarded by the channel's mutex, which is held by whoever calls a function.
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

  // Of the calling worker. Leave: it is off duty. Return: it would be on duty again; false: it is not needed, and ends.
  void Leave() { on_duty_ = false; }
  bool Return(std::unique_lock<std::mutex>& lock);
  // The last thing that a worker does.
  void End();

  // From now on there are no spares.
  void Dismiss();
  // Waits until all of them have ended but the caller, if it is one. Lets go of the lock meanwhile. REQUIRES: Dismiss.
  void Join(std::unique_lock<std::mutex>& lock);
  bool IsOneOfThem() const;

 private:
  void JoinEnded();

  std::condition_variable called_;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // but for the end of their function
  bool on_duty_ = false;
  bool has_spare_ = false;
  bool is_called_ = false;  // the spare
  bool dismissed_ = false;
};

}  // namespace tutti::pytorch
