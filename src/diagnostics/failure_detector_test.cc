// When a waiting rank gives up.
#include "src/diagnostics/failure_detector.h"

#include <gtest/gtest.h>

#include "base/all_gather.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::diagnostics {
namespace {

using std::chrono::milliseconds;

// A kernel, or a helper thread, may not yet have taken what a rank sent before it left.
TEST(FailureDetector, ARankThatLeftIsMissedLate) {
  std::vector<std::optional<Error>> seen;
  const auto thrown = shm::RunThreadRanks(2, [&](int rank, const AllGather& all_gather) {
    shm::Fabric fabric(rank, {{0, 0}, {0, 0}}, 1, Settings{}, all_gather, Deadline::After(std::chrono::seconds(60)));
    if (rank == 0) {
      fabric.control(1).state.store(ring::RankState::left);
      FailureDetector failure_detector(fabric, nullptr, std::vector<bootstrap::Process>(2), "", std::chrono::hours(1));
      plan::Operation operation;
      operation.collective = schedule::Collective::receive;
      operation.count = 10;
      operation.root = 1;
      for (const auto waited :
           {milliseconds(1), milliseconds(3), milliseconds(5), milliseconds(900), milliseconds(950)}) {
        seen.push_back(failure_detector.Look({&operation, 2, 17}, {{1}}, waited));
      }
    }
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(2));
  for (std::size_t look = 0; look < 4; ++look) EXPECT_FALSE(seen.at(look)) << seen.at(look)->what();
  ASSERT_TRUE(seen.at(4));
  EXPECT_EQ(seen.at(4)->code(), tuttiRemoteError);
  EXPECT_NE(std::string(seen.at(4)->what()).find("destroyed its communicator while"), std::string::npos)
      << seen.at(4)->what();
}

// A rank may end the collective between the sweep that missed its data and the look. Only one that this rank still misses
// half a second later has called something else.
TEST(FailureDetector, ARankThatHasJustEndedWithholdsNothing) {
  std::vector<std::optional<Error>> seen;
  const auto thrown = shm::RunThreadRanks(3, [&](int rank, const AllGather& all_gather) {
    const shm::Hosts hosts{{0, 0, 0}, {0, 0, 0}};
    shm::Fabric fabric(rank, hosts, 1, Settings{}, all_gather, Deadline::After(std::chrono::seconds(60)));
    if (rank == 0) {
      FailureDetector failure_detector(fabric, nullptr, std::vector<bootstrap::Process>(3), "", std::chrono::hours(1));
      plan::Operation operation;
      operation.collective = schedule::Collective::reduce;
      operation.count = 10;
      const auto look = [&](int awaited, milliseconds waited) {
        seen.push_back(failure_detector.Look({&operation, 2, 17}, {{awaited}}, waited));
      };
      fabric.control(1).completed.store(2);
      look(1, milliseconds(1));
      look(2, milliseconds(700));
      fabric.control(2).completed.store(2);
      look(2, milliseconds(800));
      look(2, milliseconds(1200));
      look(1, milliseconds(1250));
      look(1, milliseconds(1800));
    }
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(3));
  for (std::size_t look = 0; look < 5; ++look) EXPECT_FALSE(seen.at(look)) << look << ": " << seen.at(look)->what();
  ASSERT_TRUE(seen.at(5));
  EXPECT_NE(std::string(seen.at(5)->what()).find("with other counts and has finished it"), std::string::npos)
      << seen.at(5)->what();
}

}  // namespace
}  // namespace tutti::diagnostics
