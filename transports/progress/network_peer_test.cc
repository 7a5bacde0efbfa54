#include "transports/progress/network_peer.h"

#include <gtest/gtest.h>

#include "base/all_gather.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::progress {
namespace {

// Each message takes the connection with the shortest queue, so one may overtake another that was sent earlier.
TEST(NetworkPeer, OlderWordsThatArriveLaterChangeNothing) {
  const auto thrown = shm::RunThreadRanks(2, [&](int rank, const AllGather& all_gather) {
    shm::Fabric fabric(rank, shm::Hosts{{0, 1}, {0, 1}}, 1, Settings{}, all_gather,
                       Deadline::After(std::chrono::seconds(60)));
    if (rank == 0) {
      NetworkPeer peer(fabric, 1);
      const auto take = [&](const NetworkMessage& message) { return peer.Take(message); };
      const auto completed = [&] { return peer.shadow().completed.load(); };
      const auto status = [](std::uint64_t index, std::uint64_t done) {
        return Status{.index = index, .operation = {}, .started = done, .completed = done, .mark = 0};
      };
      EXPECT_TRUE(take(status(1, 1)));
      EXPECT_TRUE(take(status(1, 0)));
      EXPECT_EQ(completed(), 1U);
      EXPECT_TRUE(take(Leaving{2}));
      EXPECT_TRUE(take(status(2, 1)));
      EXPECT_EQ(completed(), 2U);
      EXPECT_EQ(peer.shadow().state.load(), ring::RankState::left);
    }
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(2));
}

}  // namespace
}  // namespace tutti::progress
