// Teams, and addresses of other ranks' memory.
#include "interop/nccl/one_sided/device_api_types.h"
#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

void ExpectTeam(const ncclTeam& team, int ranks, int rank, int stride) {
  EXPECT_EQ(team.nRanks, ranks);
  EXPECT_EQ(team.rank, rank);
  EXPECT_EQ(team.stride, stride);
}

TEST(NcclTeams, FollowTheHosts) {
  RunRanks(
      4,
      [](Rank& self) {
        const auto comm = Join(self);
        const int me = self.rank();
        ExpectTeam(ncclTeamWorld(comm), 4, me, 1);
        ExpectTeam(ncclTeamLsa(comm), 2, me % 2, 1);
        ExpectTeam(ncclTeamRail(comm), 2, me / 2, 2);
        ExpectTeam(ncclTeamCft(comm, 0), 0, 0, 0);
        for (int r = 0; r < 2; ++r) {
          EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), r), me / 2 * 2 + r);
          EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamRail(comm), r), me % 2 + 2 * r);
          EXPECT_EQ(ncclTeamRankToLsa(comm, ncclTeamLsa(comm), r), r);
        }
      },
      {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

// Three ranks on two hosts: no equal teams of more than one.
TEST(NcclTeams, HaveEqualSizes) {
  RunRanks(
      3,
      [](Rank& self) {
        const auto comm = Join(self);
        ExpectTeam(ncclTeamLsa(comm), 1, 0, 1);
        ExpectTeam(ncclTeamRail(comm), 3, self.rank(), 1);
      },
      {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

TEST(NcclTeams, OfNoCommunicatorAreEmpty) {
  RunAlone([] {
    ExpectTeam(ncclTeamWorld(nullptr), 0, 0, 0);
    ExpectTeam(ncclTeamLsa(nullptr), 0, 0, 0);
    EXPECT_EQ(ncclTeamRankToWorld(nullptr, ncclTeam{2, 0, 1}, 1), -1);
    EXPECT_STRNE(ncclGetLastError(nullptr), "");
  });
}

TEST(NcclPeers, ReachEachOthersWindows) {
  RunRanks(
      4,
      [](Rank& self) {
        const auto comm = Join(self);
        void* memory = nullptr;
        ASSERT_TRUE(Ok(ncclMemAlloc(&memory, kBytes)));
        ncclWindow_t window = nullptr;
        ASSERT_TRUE(Ok(ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC)));
        const int me = self.rank(), host = me / 2;
        for (int peer = 0; peer < 4; ++peer) {
          void* place = &place;
          ASSERT_TRUE(Ok(ncclGetPeerDevicePointer(window, 8 * me, peer, &place)));
          EXPECT_EQ(place != nullptr, peer / 2 == host);
          if (place != nullptr) *static_cast<int*>(place) = 10 * me + peer;
        }
        ncclTeam lsa = ncclTeamLsa(comm);
        for (int r = 0; r < lsa.nRanks; ++r) {
          void *by_team = nullptr, *by_rank = nullptr;
          ASSERT_TRUE(Ok(ncclGetLsaDevicePointer(window, 16, r, &by_team)));
          ASSERT_TRUE(Ok(ncclGetPeerDevicePointer(window, 16, 2 * host + r, &by_rank)));
          EXPECT_EQ(by_team, by_rank);
        }
        Sum(comm, 1);
        for (int writer = 2 * host; writer < 2 * host + 2; ++writer) {
          EXPECT_EQ(*reinterpret_cast<int*>(static_cast<char*>(memory) + 8 * writer), 10 * writer + me);
        }
        void* place = &place;
        EXPECT_TRUE(Ok(ncclGetLsaMultimemDevicePointer(window, 0, &place)));
        EXPECT_EQ(place, nullptr) << "no switch";
        uint32_t id = 0;
        std::size_t offset = 0;
        EXPECT_TRUE(Fails(ncclGetPeerDeviceLeInfo(window, 0, 0, &id, &offset), ncclInvalidUsage, "endpoints"));
        EXPECT_TRUE(Fails(ncclGetLsaDevicePointer(window, 0, 2, &place), ncclInvalidArgument, "lsaRank is 2"));
        EXPECT_TRUE(Fails(ncclGetPeerDevicePointer(window, 0, 4, &place), ncclInvalidArgument, "peer is 4"));
        EXPECT_TRUE(Fails(ncclGetPeerDevicePointer(nullptr, 0, 0, &place), ncclInvalidArgument, "window is NULL"));
        EXPECT_TRUE(Fails(ncclGetPeerDevicePointer(window, 0, 0, nullptr), ncclInvalidArgument, "outPtr is NULL"));
        Sum(comm, 1);
        ASSERT_TRUE(Ok(ncclCommWindowDeregister(comm, window)));
        EXPECT_TRUE(Fails(ncclGetPeerDevicePointer(window, 0, 0, &place), ncclInvalidArgument, "deregistered"));
        EXPECT_TRUE(Ok(ncclMemFree(memory)));
      },
      {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

TEST(NcclOneSided, PutsSignalsAndWaitsWork) {
  RunRanks(2, [](Rank& self) {
    const auto comm = Join(self);
    void* memory = nullptr;
    ASSERT_TRUE(Ok(ncclMemAlloc(&memory, kBytes)));
    ncclWindow_t window = nullptr;
    ASSERT_TRUE(Ok(ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC)));
    const int other = 1 - self.rank();
    const int value = 40 + self.rank();
    ncclWaitSignalDesc_t wanted{2, other, 0, 0};
    ASSERT_TRUE(Ok(ncclGroupStart()));
    EXPECT_TRUE(Ok(ncclWaitSignal(1, &wanted, comm, nullptr)));
    EXPECT_TRUE(Ok(ncclPutSignal(&value, 1, ncclInt32, other, window, 8, 0, 0, 0, comm, nullptr)));
    EXPECT_TRUE(Ok(ncclSignal(other, 0, 0, 0, comm, nullptr)));
    ASSERT_TRUE(Ok(ncclGroupEnd()));
    EXPECT_EQ(static_cast<int*>(memory)[2], 40 + other);
    ASSERT_TRUE(Ok(ncclCommWindowDeregister(comm, window)));
    EXPECT_TRUE(Ok(ncclMemFree(memory)));
  });
}

}  // namespace
}  // namespace tutti::nccl::testing
