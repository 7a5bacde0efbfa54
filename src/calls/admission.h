// How a call, or a group's part on one communicator, comes to run there: it is counted, it takes a turn if it needs one,
// and it enters when its turn has come.
//
// The calls of one communicator run in the order in which they were made, whichever streams they are on. So a call that
// is put on a stream, a control call (split, shrink, windows, ...), and one that is made while others wait takes a turn
// on its communicator. Calls cannot block each other forever this way (docs/lifecycles.md, "A legal program"):
// - Turns are taken, and calls put on streams, under QueueingOrder(). So "made before" is one order for all calls of the
//   process, and the first call that is not done waits for none of them.
// - The parts of a group take their turns one by one: a part that waits keeps no other part from running.
// - Calls that send one-sided, and so never wait for another rank, may go before a call that waits for a signal.
//
// Thread-safety: each object is used by one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "src/calls/handle.h"

namespace tutti::calls {

// Calls wait on streams, so that a call made now needs a turn.
inline bool CallsWait(const tuttiComm& handle) { return handle.life.Look().pending() != 0; }
// The next turn on the communicator. REQUIRES: QueueingOrder() is held.
std::unique_ptr<Turn> TakeTurn(const std::shared_ptr<tuttiComm>& handle, TurnKind kind = TurnKind::usual);

class Admission {
 public:
  // Enters the handle, for an operation. Throws what Operating throws.
  static std::unique_ptr<Admission> ForOperation(std::shared_ptr<tuttiComm> handle);
  // For a join, which may enter a handle whose communicator does not exist yet.
  static std::unique_ptr<Admission> ForJoin(std::shared_ptr<tuttiComm> handle);
  ~Admission() { Leave(); }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  tuttiComm& handle() const { return *handle_; }
  bool pending() const { return pending_; }  // it waits, or has waited, outside

  // From now on the call waits outside: Finalize and Destroy wait for it, an abort does not. Throws tuttiSystemError if
  // too many calls wait. REQUIRES: it is inside.
  void WaitOutside();
  // REQUIRES: QueueingOrder() is held.
  void TakeTurn(TurnKind kind) { turn_ = calls::TakeTurn(handle_, kind); }

  // inside: its turn has come, if it needs one, and it has entered. gone: the communicator is being aborted.
  enum class State { waits, inside, gone };
  State Ask();
  // Waits for its turn.
  State Await();
  // The call is over: it leaves, and ends its turn.
  void Leave();

 private:
  explicit Admission(std::shared_ptr<tuttiComm> handle) : handle_(std::move(handle)) {}
  bool aborting() const { return handle_->life.Look().aborting(); }
  // No call begins on a dead communicator, so none waits for another there.
  bool dead() const { return inside_ && handle_->communicator != nullptr && handle_->communicator->failed(); }
  State Enter();

  const std::shared_ptr<tuttiComm> handle_;
  bool inside_ = false;
  bool pending_ = false;
  std::unique_ptr<Turn> turn_;
};
using Admissions = std::vector<std::unique_ptr<Admission>>;

}  // namespace tutti::calls
