// Turns: an order of calls that is fixed when the user makes them, whichever threads run them.
//
// Thread-safety: all members, from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace tutti::launch {

class Turns {
 public:
  std::uint64_t Take();
  void End(std::uint64_t number);
  // Returns when all turns before this one are over. False: `is_void`, which it calls from time to time, returned true
  // before that.
  bool Await(std::uint64_t number, const std::function<bool()>& is_void);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<std::uint64_t> taken_;  // under mutex_
  std::uint64_t next_ = 0;         // under mutex_
};

// One call's turn. It ends with End() or with this object, whether it was awaited or not.
class Turn {
 public:
  explicit Turn(std::shared_ptr<Turns> turns) : turns_(std::move(turns)), number_(turns_->Take()) {}
  ~Turn() { End(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool Await(const std::function<bool()>& is_void) const { return turns_->Await(number_, is_void); }
  void End() { turns_->End(number_); }

 private:
  const std::shared_ptr<Turns> turns_;
  const std::uint64_t number_;
};

}  // namespace tutti::launch
