#include "interop/pmpi/group.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

namespace tutti::pmpi {
namespace {

struct Groups {
  std::mutex mutex;
  std::map<std::vector<int>, std::weak_ptr<Group>> by_ranks;
};
Groups& TheGroups() {
  static auto* const all = new Groups;  // MPI may free communicators while the process exits
  return *all;
}

}  // namespace

std::shared_ptr<Group> Group::Of(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  auto& groups = TheGroups();
  const std::lock_guard lock(groups.mutex);
  auto& known = groups.by_ranks[std::move(ranks)];
  auto group = known.lock();
  if (group == nullptr) known = group = std::make_shared<Group>();
  return group;
}

Group::~Group() {
  if (parent_ != nullptr) tuttiCommDestroy(parent_);
}

Group::Way Group::Choose(State least, State greatest) {
  if (greatest == State::first || greatest == State::in_use) return Way::directly;
  if (least == State::parent) return Way::by_the_parent;
  // Some ranks have a parent that others have given up.
  return greatest == State::parent ? Way::directly : Way::by_a_new_parent;
}

Group::State Group::Claim::state() const {
  if (!lock_.owns_lock()) return State::in_use;
  if (group_.parent_ != nullptr) return State::parent;
  return group_.any_ ? State::no_parent : State::first;
}

bool HasDescriptorsFor(int ranks) {
  // For each rank: a connection, one while the ranks meet, and one to its process.
  constexpr std::size_t kForEachRank = 3, kForOne = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  if (error) return true;
  const auto open = static_cast<std::size_t>(std::distance(begin(all), end(all)));
  // A quarter is the program's.
  const auto needed =
      std::max(kForOne + kForEachRank * static_cast<std::size_t>(ranks), static_cast<std::size_t>(limit.rlim_cur) / 4);
  if (open + needed <= limit.rlim_cur) return true;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    std::fprintf(stderr,
                 "tutti-mpi: some communicators stay with MPI: this process holds %zu of the %zu file descriptors that "
                 "it may hold (ulimit -n)\n",
                 open, static_cast<std::size_t>(limit.rlim_cur));
  }
  return false;
}

}  // namespace tutti::pmpi
