// Backend's calls for a group whose members change (torch.distributed._reconfigure).
//
// A handle names one rank of one generation of the group: "tutti:GLOBAL_RANK:GENERATION:PROCESS". The program takes the
// handles of all members to each of them. From these every member knows its new rank, and which processes it waits for:
// so it notices at once if one dies before they have met, and needs no agreement on who is left, as tuttiCommShrink does.
// They meet over the group's store, as the members of a new group do. The old members' communicators are kept until then,
// so a failed reconfigure changes nothing; then they are revoked, which ends what still runs or waits there.
#include "interop/torch/csrc/backend.h"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

#include <algorithm>
#include <sstream>
#include <unordered_set>
#include <utility>
#include <variant>

#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/without_pythons_lock.h"

namespace tutti::pytorch {
namespace {

constexpr char kCall[] = "reconfigure";
constexpr char kKind[] = "tutti";
constexpr char kBetweenParts = ':';

struct Handle {
  std::int64_t global_rank = 0;
  Process process;
};

Handle Parse(const c10d::ReconfigureHandle& text) {
  std::istringstream parts(text);
  std::string kind, global_rank, generation, process;
  std::getline(parts, kind, kBetweenParts);
  std::getline(parts, global_rank, kBetweenParts);
  std::getline(parts, generation, kBetweenParts);
  std::getline(parts, process);
  Handle handle{-1, Process::FromWord(process)};
  std::istringstream(global_rank) >> handle.global_rank;
  if (kind != kKind || handle.global_rank < 0 || handle.process.number <= 0) {
    Refuse(kCall, ": \"", text, "\" is no handle of this backend; _get_reconfigure_handle gives them");
  }
  return handle;
}

// By rank. Handles in a set are in no order, so all members sort them.
std::vector<c10d::ReconfigureHandle> InOrder(const c10d::ReconfigureOptions& options) {
  std::vector<c10d::ReconfigureHandle> handles;
  std::visit([&](const auto& given) { handles.assign(given.begin(), given.end()); }, options.handles);
  auto sorted = handles;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    Refuse(kCall, ": the handle \"", *twice, "\" is given twice");
  }
  return std::holds_alternative<std::vector<c10d::ReconfigureHandle>>(options.handles) ? handles : sorted;
}

}  // namespace

c10d::ReconfigureHandle Backend::get_reconfigure_handle() const {
  const auto rank = static_cast<std::size_t>(founding_.rank);
  const auto& global_ranks = founding_.global_ranks;
  return std::string(kKind) + kBetweenParts +
         std::to_string(rank < global_ranks.size() ? global_ranks[rank] : founding_.rank) + kBetweenParts + generation_ +
         kBetweenParts + Process::Own().Word();
}

Backend::WorkPtr Backend::reconfigure(const c10d::ReconfigureOptions& options) {
  const WithoutPythonsLock unlocked;
  const auto handles = InOrder(options);
  const auto own = get_reconfigure_handle();
  const auto place = std::find(handles.begin(), handles.end(), own);
  if (place == handles.end()) {
    Refuse(kCall, ": this rank's handle, \"", own, "\", is not among the ", handles.size(), " given ones");
  }
  const auto generation = std::to_string(options.uuid);
  GroupIdentity identity;
  identity.name = founding_.name + ", reconfigured " + generation;
  identity.rank = static_cast<int>(place - handles.begin());
  identity.ranks = static_cast<int>(handles.size());
  identity.timeout = options_->timeout;
  for (const auto& text : handles) {
    const auto handle = Parse(text);
    identity.global_ranks.push_back(handle.global_rank);
    identity.processes.push_back(handle.process);
  }
  const auto timeout = options.timeout.value_or(options_->timeout);
  if (timeout.count() <= 0) Refuse(kCall, ": the timeout is ", timeout.count(), " ms, but must be above 0");
  std::shared_ptr<TaskQueues> queues;
  try {
    // Each member claims its rank. A handle changes with each reconfigure, so a uuid of an earlier one has another claim.
    if (board_->Claim(identity.name + "/claim/" + std::to_string(identity.rank), own) != own) {
      Refuse(kCall, ": the uuid ", options.uuid, " was already used; each reconfigure needs a new one");
    }
    queues = std::make_shared<TaskQueues>(identity, board_);
    {
      const std::lock_guard lock(members_mutex_);
      joining_ = queues;
    }
    queues->Meet(timeout);
  } catch (...) {
    const auto error = ForPython(std::current_exception());
    {
      const std::lock_guard lock(members_mutex_);
      joining_ = nullptr;
    }
    if (queues != nullptr) queues->Close();
    std::rethrow_exception(error);
  }
  const auto old_queues = queues_;
  const auto old_any_source = any_source_;
  TakeMembers(std::move(queues));
  rank_ = identity.rank;
  size_ = identity.ranks;
  generation_ = generation;
  issued_ = 0;
  monitored_ = 0;
  if (old_queues != nullptr) {
    old_queues->Stop();
    Close(*old_queues, *old_any_source);
  }

  auto done = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  done->markCompleted(c10::IValue(std::vector<at::Tensor>()));
  return c10d::Work::create_from_future(done);
}

c10d::ErrorType Backend::getError() {
  std::shared_ptr<TaskQueues> queues;
  {
    const std::lock_guard lock(members_mutex_);
    queues = queues_;
  }
  switch (queues == nullptr ? tuttiSuccess : queues->HowFailed()) {
    case tuttiSuccess:
    case tuttiInProgress:
      return c10d::ErrorType::SUCCESS;
    case tuttiTimeoutError:
      return c10d::ErrorType::TIMEOUT;
    case tuttiRemoteError:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

}  // namespace tutti::pytorch

#endif
