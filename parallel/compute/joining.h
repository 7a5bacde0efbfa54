// Communication beside computing: its begin, its end, and what has gone wrong in it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <exception>
#include <vector>

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// compute.join_communication(). Throws Error with the sentence of the group, one of those that have communicated, in
// which something failed: a stream knows only that something has.
void join_communication(Compute& compute, const std::vector<ProcessGroup*>& groups);

// The same before memory goes that communication may still read or write, whatever has become of it: who wants to know
// has joined before.
void await_communication(Compute& compute) noexcept;

// A group's communication beside computing within one function. Computing may throw, also while messages are under way,
// and leaving the function frees what they are read from and written to. So this is to be declared behind all of that:
// it goes first, and waits. If it goes by an exception it then revokes the group's communicator, since this rank will
// not meet what the others call next, and they would wait for it.
//
// Not before: a rank of the same process reads a message where it lies, and may do so after a revoked call has returned
// here. The wait ends also if several ranks leave. Whoever leaves first, by the order of messages, waits for such alone
// as the others have begun before they left; then it revokes, which ends the others' waits.
class OverlappedCommunication {
 public:
  // Both outlive this.
  OverlappedCommunication(Compute& compute, ProcessGroup& group) : compute_(compute), group_(group) {}
  ~OverlappedCommunication();
  OverlappedCommunication(const OverlappedCommunication&) = delete;
  OverlappedCommunication& operator=(const OverlappedCommunication&) = delete;

  // What is given to this stream comes after what was computed before, and runs beside what is computed until join().
  tuttiStream_t fork();
  // As join_communication(). Nothing if nothing is under way.
  void join();

 private:
  Compute& compute_;
  ProcessGroup& group_;
  int exceptions_ = std::uncaught_exceptions();
  bool under_way_ = false;
};

}  // namespace tutti::parallel
