// Communication that overlaps with computing: its begin, its end, and its errors.
//
// Thread-safety: one thread at a time.
#pragma once

#include <exception>
#include <vector>

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// compute.join_communication(). Throws Error with the sentence of the group, one of those that have communicated, in
// which something failed: a stream reports only that something has.
void join_communication(Compute& compute, const std::vector<ProcessGroup*>& groups);

// The same, before freeing memory that communication may still read or write, whatever its outcome: a caller that wants
// the outcome has joined before.
void await_communication(Compute& compute) noexcept;

// A group's communication that overlaps with computing within one function. Computing may throw, also while messages
// are under way, and leaving the function frees the memory that they read and write. So declare this behind all of that
// memory: it is destroyed first, and waits. If an exception destroys it, it then revokes the group's communicator,
// since this rank will not meet the others' next calls, and they would wait for it.
//
// It does not revoke earlier: a rank of the same process reads a message where it lies, and may do so after a revoked
// call has returned here. The wait ends also if several ranks leave. The one that leaves first, in the order of
// messages, waits only for what the others have begun before they left; then it revokes, which ends the others' waits.
class OverlappedCommunication {
 public:
  // Both outlive this.
  OverlappedCommunication(Compute& compute, ProcessGroup& group) : compute_(compute), group_(group) {}
  ~OverlappedCommunication();
  OverlappedCommunication(const OverlappedCommunication&) = delete;
  OverlappedCommunication& operator=(const OverlappedCommunication&) = delete;

  // Work given to this stream runs after all earlier computation, and overlaps with computation until join().
  tuttiStream_t fork();
  // As join_communication(). Does nothing if nothing is under way.
  void join();

 private:
  Compute& compute_;
  ProcessGroup& group_;
  int exceptions_ = std::uncaught_exceptions();
  bool under_way_ = false;
};

}  // namespace tutti::parallel
