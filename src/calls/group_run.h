// A group's calls on any number of communicators, all progressing together. Each communicator's part begins as soon as
// it can, whatever the others wait for, and is over as soon as its own calls are. So a group that waits holds no
// communicator that it does not use.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "src/calls/admission.h"
#include "src/calls/streams/launcher.h"

namespace tutti::calls {

// A group's calls on one communicator; those that send one-sided are a part of their own. On one communicator,
// collectives run in the order given, messages of one pair and direction likewise; everything else runs concurrently.
// Messages to oneself are copied.
struct Part {
  std::unique_ptr<Admission> admission;
  std::vector<plan::Operation> operations;
  bool sends = false;
  bool in_background = false;             // in the thread of a non-blocking communicator
  std::vector<std::size_t> streams = {};  // those that must have arrived, as the group numbers them
};

// The part's calls are over: its communicator keeps the failure, if any, and is left.
void EndPart(Part& part, const std::optional<Error>& failure);
// The failure of a call whose communicator was aborted before the call could begin.
Error AbortedBefore(const Admission& admission);

class GroupRun {
 public:
  // The parts outlive this. Parts that send come before others on the same communicator.
  explicit GroupRun(std::span<Part> parts);
  // Ends the parts that are not over.
  ~GroupRun();
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  // Runs the parts to their ends, in this thread. A failing communicator ends its own operations, not the others'.
  // False: before that, `stop`, which is called from time to time, returned true, or nothing is left to do before
  // another stream arrives, of which `has_arrived` tells. Drive may be called again, by another thread, too.
  bool Drive(host::WhoWaits who, const std::function<bool(std::size_t)>& has_arrived,
             const std::function<bool()>& stop);
  // The first failure of a part that is over.
  const std::optional<Error>& failure() const { return first_failure_; }

 private:
  // Operations of one communicator that must keep their order.
  struct Queue;
  struct Running;
  using All = std::list<Running>;

  bool TryBegin(Running& part, const std::function<bool(std::size_t)>& has_arrived);
  void AwaitAndBegin(Running& part);
  void Begin(Running& part);  // it is locked
  host::Run::Progress Sweep(Running& part);
  host::Run::Progress SweepAll(const std::function<bool(std::size_t)>& has_arrived);
  All::iterator Leave(All::iterator which);
  void Look(std::chrono::steady_clock::duration waited);
  host::WaitPolicy PolicyFor(host::WhoWaits who) const;

  All all_;
  std::optional<Error> first_failure_;
};

}  // namespace tutti::calls
