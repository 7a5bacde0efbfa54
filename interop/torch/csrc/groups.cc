// Backend's calls on a whole group: its options, its timeout, and groups made from it.
#include <algorithm>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "interop/torch/csrc/backend.h"
#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/invalid_argument.h"
#include "interop/torch/csrc/ops/monitored_barrier.h"

namespace tutti::pytorch {
namespace {

constexpr int kShrinkAbort = 1;  // torch.distributed.SHRINK_ABORT

}  // namespace

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const auto timeout = options.timeout.count() < 0 ? options_->timeout : options.timeout;
  try {
    MonitoredBarrier(Members()->meeting_of_all(), *board_, monitored_++, timeout, wait_all_ranks);
  } catch (const Failure&) {
    std::rethrow_exception(ForPython(std::current_exception()));
  }
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) Refuse("set_timeout: the timeout is ", timeout.count(), " ms, but must be above 0");
  options_->timeout = timeout;
  if (queues_ != nullptr) queues_->SetTimeout(timeout);
}

// A group of some of this group's ranks, in the order of `ranks`, over this group's store or another that they share.
c10::intrusive_ptr<BackendBase> Backend::MakeFrom(const c10::intrusive_ptr<c10d::Store>& store, const char* call,
                                                  const std::vector<int>& ranks, std::chrono::milliseconds timeout,
                                                  const std::string& name) const {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) Refuse(call, ": rank ", rank_, " is not one of the new group's ranks, ", ranks);
  const auto& global_ranks = Members()->identity().global_ranks;
  GroupIdentity identity;
  identity.name = name;
  identity.rank = static_cast<int>(own - ranks.begin());
  identity.ranks = static_cast<int>(ranks.size());
  identity.timeout = timeout;
  for (const auto rank : ranks) {
    CheckRank(call, "a rank of the new group", rank, size_);
    const auto at = static_cast<std::size_t>(rank);
    identity.global_ranks.push_back(at < global_ranks.size() ? global_ranks[at] : rank);
  }
  return c10::make_intrusive<Backend>(store, std::move(identity));
}

c10::intrusive_ptr<BackendBase> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                               const std::vector<int>& ranks,
                                               const c10::intrusive_ptr<BackendBase::Options>& options) {
  auto name = Members()->identity().name + ", split";
  for (const auto rank : ranks) name += " " + std::to_string(rank);
  return MakeFrom(store, "split_group", ranks, options ? options->timeout : options_->timeout, name);
}

c10::intrusive_ptr<BackendBase> Backend::shrink(const std::vector<std::int64_t>& excluded, int flags,
                                                const c10::intrusive_ptr<BackendBase::Options>& options) {
  std::vector<int> left;
  auto name = Members()->identity().name + ", without";
  for (int rank = 0; rank < size_; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) {
      left.push_back(rank);
    } else {
      name += " " + std::to_string(rank);
    }
  }
  if (flags == kShrinkAbort) queues_->Stop();
  const auto store = c10::make_intrusive<c10d::PrefixStore>("shrunk", store_);
  return MakeFrom(store, "shrink_group", left, options ? options->timeout : options_->timeout, name);
}

}  // namespace tutti::pytorch
