#include "parallel/compute/joining.h"

#include "tutti/parallel/error.h"

namespace tutti::parallel {

void join_communication(Compute& compute, const std::vector<ProcessGroup*>& groups) {
  try {
    compute.join_communication();
  } catch (const Error& error) {
    for (auto* const group : groups) {
      if (group->size() > 1 && *tuttiGetLastError(group->comm()) != '\0') check(error.code(), group->comm());
    }
    throw;
  }
}

void await_communication(Compute& compute) noexcept {
  try {
    compute.join_communication();
  } catch (...) {  // NOLINT(bugprone-empty-catch): see the declaration
  }
}

OverlappedCommunication::~OverlappedCommunication() {
  if (under_way_) await_communication(compute_);
  if (std::uncaught_exceptions() > exceptions_) group_.revoke();
}

tuttiStream_t OverlappedCommunication::fork() {
  compute_.fork_communication();
  under_way_ = true;
  return compute_.communication_stream();
}

void OverlappedCommunication::join() {
  if (!under_way_) return;
  join_communication(compute_, {&group_});
  under_way_ = false;
}

}  // namespace tutti::parallel
