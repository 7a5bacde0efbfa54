// Several handles at once, entered for a group's calls, or counted as pending while the calls wait on streams. A handle
// given more than once counts once.
//
// Thread-safety: each object is used by one thread at a time.
#pragma once

#include <memory>
#include <set>

#include "src/launch/handle.h"

namespace tutti::launch {

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

  void Leave(tuttiComm& handle);
  void LeaveAll();

 private:
  std::set<std::shared_ptr<tuttiComm>, std::owner_less<>> inside_;
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
  void End();

 private:
  std::set<std::shared_ptr<tuttiComm>, std::owner_less<>> handles_;
};

}  // namespace tutti::launch
