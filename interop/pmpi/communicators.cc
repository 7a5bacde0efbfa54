#include "interop/pmpi/communicators.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_set>
#include <vector>

#include "interop/pmpi/constants.h"
#include "interop/pmpi/handle_cache.h"
#include "interop/pmpi/settings.h"
#include "tutti/extension.h"

namespace tutti::pmpi {
namespace {

// Calls on a communicator before it gets one of Tutti. Making one takes milliseconds, and many programs make
// communicators for a call or two.
constexpr int kCallsBefore = 4;

Epoch freed_communicators;

// All that live, for the end.
struct Register {
  std::mutex mutex;
  std::unordered_set<Communicator*> all;
  std::atomic<bool> ended{false};
};
Register& TheRegister() {
  static auto* const all = new Register;  // MPI may free communicators while the process exits
  return *all;
}

int ForgetCommunicator(MPI_Comm, int, void* kept, void*) {
  freed_communicators.Next();
  auto* const communicator = static_cast<Communicator*>(kept);
  {
    const std::lock_guard lock(TheRegister().mutex);
    if (TheRegister().all.erase(communicator) == 0) return MPI_SUCCESS;  // at the end of MPI
  }
  delete communicator;
  return MPI_SUCCESS;
}

int CopyNoCommunicator(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int CommunicatorKey(const Below& mpi) {
  static const int key = [&] {
    int made = MPI_KEYVAL_INVALID;
    mpi.Comm_create_keyval(CopyNoCommunicator, ForgetCommunicator, &made, nullptr);
    return made;
  }();
  return key;
}

// Where nobody sends: a communicator of this rank alone.
class Nobody {
 public:
  MPI_Comm Get(const Below& mpi) {
    const std::lock_guard lock(mutex_);
    if (!made_) made_ = mpi.Comm_dup(TheConstants().comm_self, &comm_) == MPI_SUCCESS;
    return comm_;
  }
  void Free(const Below& mpi) {
    if (made_) mpi.Comm_free(&comm_);
  }

 private:
  std::mutex mutex_;
  bool made_ = false;
  MPI_Comm comm_{};
};
Nobody& TheNobody() {
  static Nobody nobody;
  return nobody;
}

// A number of this host's running system.
std::uint64_t HostNumber() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  utsname names{};
  if (uname(&names) == 0) boot += names.nodename;
  return std::hash<std::string>{}(boot);
}

struct Announcement {
  tuttiUniqueId id;
  tuttiResult_t result;
};

}  // namespace

// MPI moves all its messages on when it is asked whether a request is complete, and it is not. (Asked for a message by
// MPI_Iprobe, MPICH 4.0 does not move those of others.) So the request is to receive from nobody.
class Communicator::Progress {
 public:
  explicit Progress(const Below& mpi) : mpi_(mpi) {
    mpi.Irecv(&nothing_, 0, TheConstants().byte, 0, 0, TheNobody().Get(mpi), &request_);
  }
  ~Progress() {
    mpi_.Cancel(&request_);
    mpi_.Wait(&request_, MPI_STATUS_IGNORE);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // For tuttiCommOnWait.
  static void Make(void* progress) {
    auto& self = *static_cast<Progress*>(progress);
    int complete = 0;
    self.mpi_.Test(&self.request_, &complete, MPI_STATUS_IGNORE);
  }

 private:
  const Below& mpi_;
  MPI_Request request_{};
  char nothing_ = 0;
};

Communicator::Communicator(const Below& mpi, MPI_Comm comm)
    : mpi_(mpi), comm_(comm), standing_("handed to MPI: too few calls") {
  mpi.Comm_rank(comm, &rank_);
  mpi.Comm_size(comm, &ranks_);
  if (const auto* const reason = ReasonOfKind()) Decline(reason);
}

Communicator::~Communicator() {
  if (tutti_ != nullptr) tuttiCommDestroy(tutti_);
  Record(counts_, standing_);
}

void Communicator::MoveMessages() const { Progress::Make(progress_.get()); }

void Communicator::Decline(const char* reason) {
  decided_ = true;
  standing_ = reason;
}

std::vector<int> Communicator::RanksOfWorld() const {
  MPI_Group world{}, group{};
  mpi_.Comm_group(TheConstants().comm_world, &world);
  mpi_.Comm_group(comm_, &group);
  std::vector<int> ranks(static_cast<std::size_t>(ranks_)), there(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  mpi_.Group_translate_ranks(group, ranks_, ranks.data(), world, there.data());
  mpi_.Group_free(&group);
  mpi_.Group_free(&world);
  return there;
}

const char* Communicator::ReasonOfKind() const {
  int inter = 0;
  mpi_.Comm_test_inter(comm_, &inter);
  if (inter != 0) return "handed to MPI: an intercommunicator";
  if (ranks_ == 1) return "handed to MPI: one rank";
  // Processes that MPI has started later may lack this library.
  const auto ranks = RanksOfWorld();
  const bool stranger = std::ranges::find(ranks, MPI_UNDEFINED) != ranks.end();
  return stranger ? "handed to MPI: ranks of several MPI_COMM_WORLDs" : nullptr;
}

const char* Communicator::ReasonOfThisRank() {
  return WantsMpiAlone() ? "handed to MPI: TUTTI_MPI=off on some rank" : nullptr;
}

Communicator::Agreement Communicator::Agree(Group::State state) const {
  const auto* const reason = ReasonOfThisRank();
  const auto host = HostNumber();
  const auto found = static_cast<std::uint64_t>(state);
  // The greatest of x and of ~x: the complement of the latter is the least x.
  std::array<std::uint64_t, 6> mine = {host,  ~host, reason == nullptr ? 0U : 1U, HasDescriptorsFor(ranks_) ? 0U : 1U,
                                       found, ~found},
                               greatest{};
  const auto result = mpi_.Allreduce(mine.data(), greatest.data(), static_cast<int>(mine.size()), TheConstants().uint64,
                                     TheConstants().max, comm_);
  if (result != MPI_SUCCESS || greatest[0] != ~greatest[1] || greatest[2] != 0)
    return {reason != nullptr ? reason : "handed to MPI: several hosts, or TUTTI_MPI=off on some rank", {}};
  if (greatest[3] != 0) return {"handed to MPI: too few file descriptors on some rank", {}};
  return {nullptr, Group::Choose(static_cast<Group::State>(~greatest[5]), static_cast<Group::State>(greatest[4]))};
}

tuttiResult_t Communicator::Meet(tuttiConfig_t& config, tuttiComm_t& made) const {
  Announcement announcement{};
  if (rank_ == 0) announcement.result = tuttiGetUniqueId(&announcement.id);
  if (mpi_.Bcast(&announcement, sizeof announcement, TheConstants().byte, 0, comm_) != MPI_SUCCESS)
    return tuttiSystemError;
  if (announcement.result != tuttiSuccess) return announcement.result;
  return tuttiCommInitRankConfig(&made, ranks_, announcement.id, rank_, &config);
}

bool Communicator::Join(const Group::Claim& group, Group::Way way) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.operationTimeoutMs = 0;  // MPI waits for ever
  config.device = TUTTI_DEVICE_NONE;
  auto result = tuttiSuccess;
  if (way == Group::Way::directly) {
    result = Meet(config, tutti_);
  } else {
    if (way == Group::Way::by_a_new_parent) result = Meet(config, group.parent());
    if (result == tuttiSuccess) result = tuttiCommSplit(group.parent(), 0, rank_, &tutti_, &config);
  }
  if (result == tuttiSuccess) {
    progress_ = std::make_unique<Progress>(mpi_);
    result = tuttiCommOnWait(tutti_, Progress::Make, progress_.get());
  }
  if (result != tuttiSuccess) {
    std::fprintf(stderr, "tutti-mpi: rank %d makes no communicator: %s\n", rank_, tuttiGetLastError(nullptr));
  }
  const int failed = result != tuttiSuccess ? 1 : 0;
  int anywhere = 1;
  mpi_.Allreduce(&failed, &anywhere, 1, TheConstants().int_, TheConstants().max, comm_);
  if (anywhere == 0) return true;
  if (tutti_ != nullptr) tuttiCommAbort(tutti_);
  tutti_ = nullptr;
  if (way != Group::Way::directly && group.parent() != nullptr) {
    tuttiCommAbort(group.parent());
    group.parent() = nullptr;
  }
  return false;
}

void Communicator::Decide() {
  if (calls_++ < kCallsBefore) return;
  group_ = Group::Of(RanksOfWorld());
  const Group::Claim claim(*group_);
  const auto agreement = Agree(claim.state());
  if (agreement.reason != nullptr) {
    Decline(agreement.reason);
  } else if (Join(claim, agreement.way)) {
    if (claim.state() != Group::State::in_use) claim.NoteMade();
    decided_ = true;
    standing_ = "over Tutti";
  } else {
    Decline("handed to MPI: Tutti could not make one");
  }
}

Communicator* CommunicatorOf(const Below& mpi, MPI_Comm comm) {
  thread_local HandleCache<MPI_Comm, Communicator> latest;
  if (auto* const found = latest.Find(comm, freed_communicators)) [[likely]]
    return found;
  if (comm == TheConstants().comm_null) return nullptr;
  int initialised = 0, finalised = 0;
  mpi.Initialized(&initialised);
  mpi.Finalized(&finalised);
  auto& known = TheRegister();
  if (initialised == 0 || finalised != 0 || known.ended) return nullptr;
  const auto epoch = freed_communicators.now();
  void* kept = nullptr;
  int found = 0;
  if (mpi.Comm_get_attr(comm, CommunicatorKey(mpi), &kept, &found) != MPI_SUCCESS) return nullptr;
  if (found == 0) {
    auto made = std::make_unique<Communicator>(mpi, comm);
    {
      const std::lock_guard lock(known.mutex);
      known.all.insert(made.get());
    }
    if (mpi.Comm_set_attr(comm, CommunicatorKey(mpi), made.get()) != MPI_SUCCESS) {
      const std::lock_guard lock(known.mutex);
      known.all.erase(made.get());
      return nullptr;
    }
    kept = made.release();  // ForgetCommunicator deletes it
  }
  auto* const communicator = static_cast<Communicator*>(kept);
  latest.Keep(comm, communicator, epoch);
  return communicator;
}

void EndCommunicators(const Below& mpi) {
  std::unordered_set<Communicator*> all;
  auto& known = TheRegister();
  {
    const std::lock_guard lock(known.mutex);
    known.ended = true;
    all.swap(known.all);
  }
  freed_communicators.Next();
  for (auto* const communicator : all) delete communicator;
  TheNobody().Free(mpi);
}

}  // namespace tutti::pmpi
