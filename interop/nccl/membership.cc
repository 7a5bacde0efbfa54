// Communicators with fewer ranks, or more, than the one they come from. Tutti's split needs every rank, but here ranks
// are missing or new: so those concerned agree on a fresh unique id, through the old communicator, and join anew.
#include <sched.h>

#include <algorithm>
#include <vector>

#include "interop/nccl/config.h"
#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/groups.h"
#include "interop/nccl/notes.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

// What one rank tells the others.
struct Announcement {
  tuttiUniqueId id;
  tuttiResult_t result;
  std::int32_t has_id;
};

// As one rank of it sees a communicator.
struct Place {
  int rank = 0;
  int nranks = 0;
  int device = TUTTI_DEVICE_NONE;
};

Place PlaceIn(ncclComm_t comm) {
  Place place;
  Check(tuttiCommUserRank(ToTutti(comm), &place.rank));
  Check(tuttiCommCount(ToTutti(comm), &place.nranks));
  Check(tuttiCommCuDevice(ToTutti(comm), &place.device));
  return place;
}

// Waits if the communicator does not block: the answer is needed now.
void Complete(ncclComm_t comm, tuttiResult_t result) {
  while (result == tuttiInProgress) {
    sched_yield();
    Check(tuttiCommGetAsyncError(ToTutti(comm), &result));
  }
  Check(result);
}

void CheckAlive(ncclComm_t comm) {
  auto state = tuttiSuccess;
  Check(tuttiCommGetAsyncError(ToTutti(comm), &state));
  if (state == tuttiSuccess || state == tuttiInProgress) return;
  Refuse(ncclInvalidUsage,
         "comm has failed ({}), and through a failed communicator its survivors cannot agree on a new one; make one "
         "from a new ncclGetUniqueId",
         tuttiGetErrorString(state));
}

// A config for the new communicator: what is not said is as in `parent`.
tuttiConfig_t Inherit(const ncclConfig_t* given, ncclComm_t parent, const Place& place) {
  auto config = ToTutti(given).value_or(tuttiConfig_t(TUTTI_CONFIG_INITIALIZER));
  if (config.blocking == TUTTI_CONFIG_UNDEF_INT && IsNonBlocking(parent)) config.blocking = 0;
  config.device = place.device;
  return config;
}

ncclResult_t Join(ncclComm_t* newcomm, int nranks, const tuttiUniqueId& id, int rank, tuttiConfig_t config) {
  const auto result = tuttiCommInitRankConfig(ToTutti(newcomm), nranks, id, rank, &config);
  if (result != tuttiSuccess && result != tuttiInProgress) return FromTutti(result);
  if (config.blocking == 0) NoteNonBlocking(*newcomm);
  return FromTutti(result);
}

std::vector<int> Survivors(const Place& place, const int* excluded, int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < place.nranks; ++rank) ranks.push_back(rank);
  for (int i = 0; i < count; ++i) {
    if (excluded[i] < 0 || excluded[i] >= place.nranks) {
      Refuse(ncclInvalidArgument, "excludeRanksList[{}] is {}; this communicator has ranks 0 to {}", i, excluded[i],
             place.nranks - 1);
    }
    std::erase(ranks, excluded[i]);
  }
  if (std::find(ranks.begin(), ranks.end(), place.rank) == ranks.end()) {
    Refuse(ncclInvalidUsage, "rank {} is in excludeRanksList; only ranks that stay call ncclCommShrink", place.rank);
  }
  return ranks;
}

// The first of `ranks` makes an id and sends it to the others. No other rank of comm takes part.
tuttiUniqueId AgreeAmong(const std::vector<int>& ranks, ncclComm_t comm, int rank) {
  Announcement told{};
  const auto send_or_receive = [&] {
    if (rank != ranks[0]) {
      return tuttiRecv(&told, sizeof told, tuttiUint8, ranks[0], ToTutti(comm), nullptr);
    }
    told.result = tuttiGetUniqueId(&told.id);
    Check(tuttiGroupStart());
    for (auto peer = ranks.begin() + 1; peer != ranks.end(); ++peer) {
      // A failure comes again from the group's end, and stays with comm.
      tuttiSend(&told, sizeof told, tuttiUint8, *peer, ToTutti(comm), nullptr);
    }
    return tuttiGroupEnd();
  };
  Complete(comm, send_or_receive());
  if (told.result != tuttiSuccess) {
    Refuse(CodeOf(told.result), "rank {}, the first that stays, could not make a unique id: {}", ranks[0],
           tuttiGetErrorString(told.result));
  }
  return told.id;
}

// The id that one of comm's ranks made by ncclCommGetUniqueId.
tuttiUniqueId AgreeOnGrowth(ncclComm_t comm, const Place& place, const std::optional<ncclUniqueId>& mine) {
  std::vector<Announcement> told(static_cast<std::size_t>(place.nranks));
  auto& own = told[static_cast<std::size_t>(place.rank)];
  own.has_id = mine.has_value() ? 1 : 0;
  if (mine) own.id = ToTutti(*mine);
  Complete(comm, tuttiAllGather(&own, told.data(), sizeof own, tuttiUint8, ToTutti(comm), nullptr));
  const auto first = std::find_if(told.begin(), told.end(), [](const auto& one) { return one.has_id != 0; });
  if (first == told.end()) {
    Refuse(ncclInvalidUsage, "none of the {} ranks of comm has called ncclCommGetUniqueId", place.nranks);
  }
  return first->id;
}

}  // namespace

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                            ncclConfig_t* config, int shrinkFlags) {
  return Guard(comm, [&] {
    const auto place = PlaceIn(comm);
    CheckGiven("newcomm", newcomm);
    CheckGiven("excludeRanksList", excludeRanksList);
    if (excludeRanksCount < 1 || excludeRanksCount >= place.nranks) {
      Refuse(ncclInvalidArgument, "excludeRanksCount is {}; with {} ranks it takes 1 to {}", excludeRanksCount,
             place.nranks, place.nranks - 1);
    }
    if (shrinkFlags != NCCL_SHRINK_DEFAULT && shrinkFlags != NCCL_SHRINK_ABORT) {
      Refuse(ncclInvalidArgument, "shrinkFlags is {:#x}; there is no such flag", shrinkFlags);
    }
    CheckAlive(comm);
    const auto ranks = Survivors(place, excludeRanksList, excludeRanksCount);
    const auto ours = Inherit(config, comm, place);
    return RunOrCollect(comm, [=] {
      const auto id = AgreeAmong(ranks, comm, place.rank);
      const auto rank = std::find(ranks.begin(), ranks.end(), place.rank) - ranks.begin();
      return Join(newcomm, static_cast<int>(ranks.size()), id, static_cast<int>(rank), ours);
    });
  });
}

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  return Guard(comm, [&] {
    PlaceIn(comm);
    CheckAlive(comm);
    CheckGiven("uniqueId", uniqueId);
    const auto result = ncclGetUniqueId(uniqueId);
    if (result == ncclSuccess) NoteGrowth(comm, *uniqueId);
    return result;
  });
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                          ncclConfig_t* config) {
  return Guard(comm, [&] {
    CheckGiven("newcomm", newcomm);
    if (comm == nullptr) {
      CheckGiven("uniqueId", uniqueId);
      return ncclCommInitRankConfig(newcomm, nRanks, *uniqueId, rank, config);
    }
    const auto place = PlaceIn(comm);
    CheckAlive(comm);
    if (nRanks <= place.nranks) {
      Refuse(ncclInvalidArgument, "nRanks is {}; it must be more than the {} ranks of comm", nRanks, place.nranks);
    }
    if (rank != -1) {
      Refuse(ncclInvalidArgument, "rank is {}; a rank of comm keeps its own, and passes -1", rank);
    }
    const auto ours = Inherit(config, comm, place);
    auto mine = TakeGrowth(comm);
    if (uniqueId != nullptr) mine = *uniqueId;
    return RunOrCollect(comm,
                        [=] { return Join(newcomm, nRanks, AgreeOnGrowth(comm, place, mine), place.rank, ours); });
  });
}
