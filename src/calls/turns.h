// Turns: an order of calls that is fixed when the user makes them, whichever threads run them.
//
// Thread-safety: all members, from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace tutti::calls {

// A turn comes when all earlier turns are over. Only a call that sends one-sided may go before a call that waits for a
// signal, and before those behind it: that signal may be an answer to what is sent.
enum class TurnKind { usual, awaits_signal, sends };

class Turns {
 public:
  std::uint64_t Take(TurnKind kind);
  void End(std::uint64_t number);
  bool HasCome(std::uint64_t number);
  // Returns when the turn has come. False: `is_void`, which it calls from time to time, returned true before that.
  bool Await(std::uint64_t number, const std::function<bool()>& is_void);

 private:
  bool First(std::uint64_t number) const;  // REQUIRES: mutex_ is held

  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::uint64_t, TurnKind> taken_;  // under mutex_
  std::uint64_t next_ = 0;                   // under mutex_
};

// One call's turn. It ends with End() or with this object, whether it was awaited or not.
class Turn {
 public:
  Turn(std::shared_ptr<Turns> turns, TurnKind kind) : turns_(std::move(turns)), number_(turns_->Take(kind)) {}
  ~Turn() { End(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool HasCome() const { return turns_->HasCome(number_); }
  bool Await(const std::function<bool()>& is_void) const { return turns_->Await(number_, is_void); }
  void End() { turns_->End(number_); }

 private:
  const std::shared_ptr<Turns> turns_;
  const std::uint64_t number_;
};

}  // namespace tutti::calls
