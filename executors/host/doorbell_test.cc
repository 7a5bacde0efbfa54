#include "executors/host/doorbell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "base/all_gather.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::host {
namespace {

// A rank of this host makes the descriptor by which it is woken blocking, fills it, and says that it sleeps. Whoever wakes
// it must come back.
TEST(Doorbell, APeerCannotMakeTheCallBlock) {
  constexpr int kRanks = 3, kPeer = 1;  // ranks 0 and 1 share a host
  const auto thrown = shm::RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
    const shm::Hosts hosts{{0, 0, 1}, {0, 0, 1}};
    shm::Fabric fabric(rank, hosts, 1, Settings{}, all_gather, Deadline::After(std::chrono::seconds(60)));
    if (rank == kPeer) {
      const int bell = fabric.bell(kPeer);
      const std::uint64_t most = ~std::uint64_t{1};  // an eventfd takes no more
      while (write(bell, &most, sizeof most) == sizeof most) {
      }
      ASSERT_EQ(fcntl(bell, F_SETFL, fcntl(bell, F_GETFL) & ~O_NONBLOCK), 0);
      fabric.control(kPeer).sleeping.store(1, std::memory_order_relaxed);
      fabric.sleepers().store(1, std::memory_order_release);
    }
    all_gather({});
    if (rank == 0) {
      auto woken = std::async(std::launch::async, [&] { WakeAll(fabric); });
      EXPECT_EQ(woken.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    }
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(kRanks));
}

}  // namespace
}  // namespace tutti::host
