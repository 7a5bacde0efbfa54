#include "interop/nccl/environment/calls_log.h"

#include <exception>
#include <mutex>
#include <unordered_map>

#include "interop/nccl/convert.h"

namespace tutti::nccl {
namespace {

// How many calls of a communicator were logged; 0, 1, ... A later communicator at the same address counts on.
std::uint64_t NumberOf(ncclComm_t comm) {
  struct Counts {
    std::mutex mutex;
    std::unordered_map<ncclComm_t, std::uint64_t> of;
  };
  static auto* const counts = new Counts;  // never destroyed: communicators may be used while the process exits
  const std::lock_guard lock(counts->mutex);
  return counts->of[comm]++;
}

}  // namespace

void LogSlowly(const LoggedCall& call) noexcept {
  try {
    int nranks = 0;
    tuttiCommCount(ToTutti(call.comm), &nranks);
    DebugLog::Get().Info(call.flags,
                         "{}: opCount {:x} sendbuff {} recvbuff {} count {} datatype {} op {} root {} comm {} "
                         "[nranks={}] stream {}",
                         call.function, NumberOf(call.comm), call.send, fmt::ptr(call.receive), call.count,
                         static_cast<int>(call.type), call.op, call.root, fmt::ptr(call.comm), nranks,
                         static_cast<const void*>(call.stream));
  } catch (const std::exception&) {
    // There is no memory for a line of the log.
  }
}

}  // namespace tutti::nccl
