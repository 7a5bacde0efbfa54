// How a group ends that holds a failed call, or that is only simulated; and operators that come and go.
#include <unistd.h>

#include <array>
#include <cmath>
#include <vector>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kCount = 1000;
constexpr int kNoRoot = 7;

// As in NCCL: a failed call fails its group, and nothing of the group runs.
TEST(GroupEnds, AFailedCallEndsItsGroup) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> data(kCount, 1);
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    EXPECT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), kCount, tuttiFloat32, tuttiSum, comm, nullptr)));
    EXPECT_TRUE(Fails(tuttiBcast(data.data(), kCount, tuttiFloat32, kNoRoot, comm, nullptr), tuttiInvalidArgument,
                      {"root is 7"}));
    EXPECT_TRUE(Fails(tuttiBcast(nullptr, kCount, tuttiFloat32, 0, comm, nullptr), tuttiInvalidArgument, {"NULL"}));
    EXPECT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiInvalidArgument, {"root is 7"})) << "the first failure";
    EXPECT_EQ(data[0], 1) << "nothing has run";
    // The failure is over, and the communicator lives.
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    EXPECT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), kCount, tuttiFloat32, tuttiSum, comm, nullptr)));
    EXPECT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(data[0], 2);
  });
}

// Questions are no calls of the group.
TEST(GroupEnds, AFailedQuestionDoesNot) {
  RunAlone([] {
    std::array<tuttiComm_t, 2> comms{};
    ASSERT_TRUE(Ok(tuttiCommInitAll(comms.data(), 2, nullptr)));
    std::array<float, 2> data{1, 2};
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(Ok(tuttiAllReduce(&data[i], &data[i], 1, tuttiFloat32, tuttiSum, comms[i], nullptr)));
    }
    EXPECT_TRUE(Fails(tuttiCommCount(nullptr, nullptr), tuttiInvalidArgument, {"comm"}));
    EXPECT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(data[0], 3);
    for (auto* comm : comms) EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
}

TEST(GroupEnds, AFailedJoinMakesNoCommunicator) {
  RunAlone([] {
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    std::array<tuttiComm_t, 2> comms{};
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    EXPECT_TRUE(Ok(tuttiCommInitRank(&comms[0], 2, id, 0)));
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comms[1], 2, id, 2), tuttiInvalidArgument, {"rank is 2"}));
    EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiInvalidArgument, {"rank is 2"}));
    EXPECT_EQ(comms[0], nullptr);
    EXPECT_EQ(comms[1], nullptr);
  });
}

float Simulated(tuttiComm_t comm, std::vector<float>& data, std::size_t count, int calls) {
  tuttiSimInfo_t info = TUTTI_SIM_INFO_INITIALIZER;
  EXPECT_TRUE(Ok(tuttiGroupStart()));
  for (int i = 0; i < calls; ++i) {
    EXPECT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, nullptr)));
  }
  EXPECT_TRUE(Ok(tuttiGroupSimulateEnd(&info)));
  return info.estimatedTime;
}

TEST(GroupEnds, ASimulatedGroupRunsNothing) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> data(std::size_t{1} << 20, 1);
    // Rank 0 alone simulates: no other rank is needed.
    if (self.rank() == 0) {
      const float small = Simulated(comm, data, 2, 1), large = Simulated(comm, data, data.size(), 1);
      EXPECT_GT(small, 0);
      EXPECT_GT(large, 10 * small);
      EXPECT_NEAR(Simulated(comm, data, 2, 3), 3 * small, small / 100);
      EXPECT_EQ(Simulated(comm, data, 2, 0), 0);
      EXPECT_EQ(data[0], 1);
      tuttiSimInfo_t info = TUTTI_SIM_INFO_INITIALIZER;
      EXPECT_TRUE(Fails(tuttiGroupSimulateEnd(&info), tuttiInvalidUsage, {"tuttiGroupStart"})) << "it is closed";
      EXPECT_TRUE(Fails(tuttiGroupSimulateEnd(nullptr), tuttiInvalidArgument, {"simInfo"}));
      info.magic = 1;
      EXPECT_TRUE(Fails(tuttiGroupSimulateEnd(&info), tuttiInvalidArgument, {"INITIALIZER"}));
    }
    ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), 1, tuttiFloat32, tuttiSum, comm, nullptr)));
    EXPECT_EQ(data[0], 2);
  });
}

tuttiRedOp_t Doubling(tuttiComm_t comm) {
  float two = 2;
  auto op = tuttiSum;
  EXPECT_TRUE(Ok(tuttiRedOpCreatePreMulSum(&op, &two, tuttiFloat32, tuttiScalarHostImmediate, comm)));
  return op;
}

TEST(Operators, ComeAndGoWithoutEnd) {
  RunAlone([] {
    std::array<tuttiComm_t, 1> comm{};
    ASSERT_TRUE(Ok(tuttiCommInitAll(comm.data(), 1, nullptr)));
    constexpr int kRounds = 20'000;  // more than may live at a time
    for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(Ok(tuttiRedOpDestroy(Doubling(comm[0]), comm[0])));
    constexpr int kMost = 4096;
    for (int i = 0; i < kMost; ++i) Doubling(comm[0]);
    float two = 2;
    auto op = tuttiSum;
    EXPECT_TRUE(Fails(tuttiRedOpCreatePreMulSum(&op, &two, tuttiFloat32, tuttiScalarHostImmediate, comm[0]),
                      tuttiInvalidUsage, {"4096 operators"}));
    EXPECT_TRUE(Ok(tuttiCommDestroy(comm[0])));
  });
}

TEST(Operators, BelongToTheirCommunicator) {
  RunAlone([] {
    std::array<tuttiComm_t, 1> mine{}, other{};
    ASSERT_TRUE(Ok(tuttiCommInitAll(mine.data(), 1, nullptr)));
    ASSERT_TRUE(Ok(tuttiCommInitAll(other.data(), 1, nullptr)));
    const auto op = Doubling(mine[0]), others = Doubling(other[0]);
    EXPECT_NE(op, others);
    float value = 1;
    const auto reduce = [&](tuttiRedOp_t by) {
      return tuttiAllReduce(&value, &value, 1, tuttiFloat32, by, mine[0], nullptr);
    };
    EXPECT_TRUE(Ok(reduce(op)));
    EXPECT_TRUE(Fails(reduce(others), tuttiInvalidArgument, {"op"}));
    EXPECT_TRUE(Fails(tuttiRedOpDestroy(others, mine[0]), tuttiInvalidArgument, {"not a live operator"}));
    ASSERT_TRUE(Ok(tuttiRedOpDestroy(op, mine[0])));
    EXPECT_TRUE(Fails(reduce(op), tuttiInvalidArgument, {"op"}));
    EXPECT_TRUE(Fails(reduce(Doubling(mine[0]) == op ? tuttiNumOps : op), tuttiInvalidArgument, {"op"}));
    EXPECT_TRUE(Fails(tuttiRedOpDestroy(tuttiSum, mine[0]), tuttiInvalidArgument, {"not a live operator"}));
    for (auto* comm : {mine[0], other[0]}) EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
}

}  // namespace
}  // namespace tutti::testing
