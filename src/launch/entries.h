// Several handles at once, entered for a group's calls, or counted as pending while the calls wait on streams. A handle
// given more than once counts once.
//
// The calls of one communicator run in the order in which they were made, whichever streams they are on. So a call that
// is put on a stream, a control call (split, shrink, windows, ...), and one that is made while others wait takes a turn
// on each of its communicators. Calls cannot block each other forever this way: turns are taken, and calls put on
// streams, under QueueingOrder(). So "made before" is one order for all calls of the process, and the first call that is
// not done waits for none of them.
//
// Thread-safety: each object is used by one thread at a time.
#pragma once

#include <map>
#include <memory>

#include "src/launch/handle.h"

namespace tutti::launch {

// Calls wait on streams, so that a call made now needs a turn.
inline bool CallsWait(const tuttiComm& handle) { return handle.life.Look().pending() != 0; }
// The next turn on the communicator. REQUIRES: QueueingOrder() is held.
std::unique_ptr<Turn> TakeTurn(const std::shared_ptr<tuttiComm>& handle);

class PendingHandles;

// Entered handles. The destructor leaves those still entered.
class Entries {
 public:
  Entries() = default;
  ~Entries() { LeaveAll(); }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  // These throw what Operating throws.
  void EnterOperation(const std::shared_ptr<tuttiComm>& handle);
  // For a join, which may enter a handle whose communicator does not exist yet.
  void EnterJoin(const std::shared_ptr<tuttiComm>& handle);
  // False: the handle is being aborted. REQUIRES: it is pending.
  bool EnterPending(const std::shared_ptr<tuttiComm>& handle);
  // Likewise, after it has waited for the handle's turn in `pending`. The turn ends when the handle is left.
  bool EnterInTurn(const std::shared_ptr<tuttiComm>& handle, PendingHandles& pending);
  // If calls wait on streams for the handles, waits until those made before are over. The turns end when the handles
  // are left. Throws tuttiInvalidArgument if one is aborted meanwhile.
  void AwaitTurns();

  void Leave(tuttiComm& handle);
  void LeaveAll();

 private:
  // Each with its turn, if it needs one.
  std::map<std::shared_ptr<tuttiComm>, std::unique_ptr<Turn>, std::owner_less<>> inside_;
};

// Handles that Finalize and Destroy find busy until End().
class PendingHandles {
 public:
  PendingHandles() = default;
  ~PendingHandles() { End(); }
  PendingHandles(const PendingHandles&) = delete;
  PendingHandles& operator=(const PendingHandles&) = delete;

  // REQUIRES: the handle is entered. Throws tuttiSystemError if too many calls are pending.
  void Add(const std::shared_ptr<tuttiComm>& handle);
  // Takes a turn on each of them. REQUIRES: QueueingOrder() is held.
  void TakeTurns();
  // Also ends the turns.
  void End();

 private:
  friend class Entries;

  std::map<std::shared_ptr<tuttiComm>, std::unique_ptr<Turn>, std::owner_less<>> handles_;
};

}  // namespace tutti::launch
