#include "interop/nccl/groups.h"

#include <signal.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "interop/nccl/failure.h"
#include "tutti/extension.h"

namespace tutti::nccl {
namespace {

using Work = std::function<ncclResult_t()>;

struct WorksOfOne {
  ncclComm_t comm;
  std::vector<Work> works;
};

struct Group {
  int depth = 0;
  std::vector<WorksOfOne> collected;
};

Group& ThisThreads() {
  thread_local Group group;
  return group;
}

struct Outcome {
  ncclResult_t result = ncclSuccess;
  std::string message;
};

// Stops at the first failure. The outcome carries the message, because messages are per thread.
Outcome RunInOrder(const WorksOfOne& these) {
  for (const auto& work : these.works) {
    const auto result = Guard(these.comm, work);
    if (result != ncclSuccess && result != ncclInProgress) return {result, LastFailure(these.comm)};
  }
  return {};
}

// A thread made during this object's lifetime has all signals blocked, because they are the program's. Signals for the
// thread's own faults stay unblocked: they must reach the program's handler.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t others;
    sigfillset(&others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&others, own);
    pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// REQUIRES: `all` is not empty.
ncclResult_t RunSideBySide(const std::vector<WorksOfOne>& all) {
  std::vector<Outcome> outcomes(all.size());
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < all.size(); ++i) {
      const SignalsBlocked blocked;
      others.emplace_back([&, i] { outcomes[i] = RunInOrder(all[i]); });
    }
    outcomes[0] = RunInOrder(all[0]);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (outcomes[i].result != ncclSuccess) return Remember(all[i].comm, outcomes[i].result, outcomes[i].message);
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t RunOrCollect(ncclComm_t comm, Work work) {
  auto& group = ThisThreads();
  if (group.depth == 0) return work();
  const auto its = std::find_if(group.collected.begin(), group.collected.end(),
                                [&](const WorksOfOne& works) { return works.comm == comm; });
  if (its != group.collected.end()) {
    its->works.push_back(std::move(work));
  } else {
    group.collected.push_back({comm, {std::move(work)}});
  }
  return ncclSuccess;
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

ncclResult_t ncclGroupStart() {
  const auto result = FromTutti(tuttiGroupStart());
  if (result == ncclSuccess) ++ThisThreads().depth;
  return result;
}

ncclResult_t ncclGroupEnd() {
  const tutti::CallsFrom caller;  // of what was collected; Tutti's own calls keep their lines
  return Guard(nullptr, [] {
    auto& group = ThisThreads();
    const auto result = FromTutti(tuttiGroupEnd());
    group.depth = std::max(0, group.depth - 1);
    if (group.depth > 0) return result;
    const auto collected = std::exchange(group.collected, {});
    if (collected.empty() || (result != ncclSuccess && result != ncclInProgress)) return result;
    const auto later = RunSideBySide(collected);
    return later != ncclSuccess ? later : result;
  });
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  static_assert(sizeof(ncclSimInfo_t) == sizeof(tuttiSimInfo_t) && NCCL_SIM_INFO_MAGIC == TUTTI_SIM_INFO_MAGIC);
  const auto result = FromTutti(tuttiGroupSimulateEnd(reinterpret_cast<tuttiSimInfo_t*>(simInfo)));
  auto& group = ThisThreads();
  if (result == ncclSuccess && group.depth > 0 && --group.depth == 0) group.collected.clear();
  return result;
}
