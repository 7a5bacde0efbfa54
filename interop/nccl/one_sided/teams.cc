#include "interop/nccl/one_sided/teams.h"

#include <numeric>
#include <vector>

#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"

namespace tutti::nccl {
namespace {

// A team without ranks: the result of a function that cannot report a failure otherwise.
constexpr ncclTeam kNoTeam{0, 0, 0};
constexpr int kNoRank = -1;

ncclTeam WorldTeam(ncclComm_t comm) {
  ncclTeam team{0, 0, 1};
  Check(tuttiCommCount(ToTutti(comm), &team.nRanks));
  Check(tuttiCommUserRank(ToTutti(comm), &team.rank));
  return team;
}

// `body`'s result, or `otherwise` after a failure, which ncclGetLastError then tells.
template <typename Result, typename Body>
Result OrElse(ncclComm_t comm, Result otherwise, Body&& body) {
  Result result = otherwise;
  const auto code = Guard(comm, [&] {
    result = body();
    return ncclSuccess;
  });
  return code == ncclSuccess ? result : otherwise;
}

}  // namespace

ncclTeam LsaTeam(ncclComm_t comm) {
  const ncclTeam world = WorldTeam(comm);
  std::vector<int> hosts(static_cast<std::size_t>(world.nRanks));
  Check(tuttiCommHosts(ToTutti(comm), hosts.data()));
  int size = world.nRanks;  // divides the number of ranks of every run on one host
  for (int r = 1; r < world.nRanks; ++r) {
    if (hosts[static_cast<std::size_t>(r)] != hosts[static_cast<std::size_t>(r) - 1]) size = std::gcd(size, r);
  }
  return {size, world.rank % size, 1};
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

ncclTeam_t ncclTeamWorld(ncclComm_t comm) {
  return OrElse(comm, kNoTeam, [&] { return WorldTeam(comm); });
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  return OrElse(comm, kNoTeam, [&] { return LsaTeam(comm); });
}

ncclTeam_t ncclTeamRail(ncclComm_t comm) {
  return OrElse(comm, kNoTeam, [&] {
    const ncclTeam world = WorldTeam(comm), lsa = LsaTeam(comm);
    return ncclTeam{world.nRanks / lsa.nRanks, world.rank / lsa.nRanks, lsa.nRanks};
  });
}

// No rank is reached in these ways.
ncclTeam_t ncclTeamCft(ncclComm_t, int) { return kNoTeam; }

ncclTeam_t ncclTeamCftMultimem(ncclComm_t) { return kNoTeam; }

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return OrElse(comm, kNoRank, [&] { return WorldTeam(comm).rank + (rank - team.rank) * team.stride; });
}

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  return OrElse(comm, kNoRank, [&] { return LsaTeam(comm).rank + (rank - team.rank) * team.stride; });
}
