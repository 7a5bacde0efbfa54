#include "tutti/parallel/p2p_communication.h"

#include "parallel/testing.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// Neighbours that both send first, more than any buffer holds.
TEST(BatchIsendIrecv, SendsDoNotWaitForEachOther) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const int peer = 1 - self.rank();
    constexpr std::size_t kCount = std::size_t{20} << 20;
    std::vector<float> mine(kCount, static_cast<float>(self.rank())), theirs(kCount, -1);
    batch_isend_irecv(group, {{P2P::isend, Tensor(mine.data(), {kCount}), peer},
                              {P2P::irecv, Tensor(theirs.data(), {kCount}), peer}});
    EXPECT_EQ(theirs.front(), peer);
    EXPECT_EQ(theirs.back(), peer);
    self.Meet();
  });
}

// Messages of a pair match in the order of both lists.
TEST(BatchIsendIrecv, MessagesOfAPairStayInOrder) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const int next = (self.rank() + 1) % 3, prev = (self.rank() + 2) % 3;
    std::vector<float> give{static_cast<float>(self.rank()), static_cast<float>(self.rank() + 10)}, take(2, -1);
    batch_isend_irecv(group, {{P2P::irecv, Tensor(&take[0], {1}), prev},
                              {P2P::isend, Tensor(&give[0], {1}), next},
                              {P2P::isend, Tensor(&give[1], {1}), next},
                              {P2P::irecv, Tensor(&take[1], {1}), prev}});
    EXPECT_EQ(take, (std::vector<float>{static_cast<float>(prev), static_cast<float>(prev + 10)}));
    self.Meet();
  });
}

TEST(BatchIsendIrecv, AWrongArgumentLeavesNoGroupOpen) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const int peer = 1 - self.rank();
    const Tensor nowhere(static_cast<float*>(nullptr), {1});
    EXPECT_TRUE(Throws(
        [&] {
          batch_isend_irecv(group, {{P2P::isend, nowhere, peer}});
        },
        tuttiInvalidArgument, {"send"}));
    float value = self.rank() == 0 ? 7 : -1;
    batch_isend_irecv(group, {{self.rank() == 0 ? P2P::isend : P2P::irecv, Tensor(&value, {1}), peer}});
    EXPECT_EQ(value, 7);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
