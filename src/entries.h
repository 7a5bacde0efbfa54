// Several handles at once: entered for a group's calls, or counted as pending while these wait on streams. A handle
// that is given more than once counts once.
//
// Thread-safety: each object is used by one thread at a time.
#pragma once

#include <memory>
#include <set>

#include "src/handle.h"

namespace tutti {

// Entered handles; what is still inside leaves at the end.
class Entries {
 public:
  Entries() = default;
  ~Entries() { LeaveAll(); }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  // Throw what Operating does.
  void EnterOperation(const std::shared_ptr<tuttiComm>& handle);
  // For a join, also of a handle whose communicator is not there yet.
  void EnterJoin(const std::shared_ptr<tuttiComm>& handle);
  // False: it is being aborted. REQUIRES: it is pending.
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

  // REQUIRES: the handle is entered. Throws tuttiSystemError if too much waits for it.
  void Add(const std::shared_ptr<tuttiComm>& handle);
  void End();

 private:
  std::set<std::shared_ptr<tuttiComm>, std::owner_less<>> handles_;
};

}  // namespace tutti
