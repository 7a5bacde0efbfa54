#include "bench/worker/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/numbers/datatype.h"

namespace tutti::bench {
namespace {

std::vector<Collective> All() {
  std::vector<Collective> all;
  for (int i = 0; i < kCollectives; ++i) all.push_back(static_cast<Collective>(i));
  return all;
}

TEST(Collective, NamesAreReadBack) {
  for (const Collective collective : All()) EXPECT_EQ(CollectiveNamed(NameOf(collective)), collective);
  EXPECT_EQ(CollectiveNamed("alltoall"), Collective::all_to_all);
  EXPECT_EQ(CollectiveNamed("alltoallv"), Collective::all_to_all_v);
  EXPECT_EQ(CollectiveNamed("sendrecv"), Collective::send_recv);
  EXPECT_EQ(CollectiveNamed("allreduce"), Collective::all_reduce);
  EXPECT_FALSE(CollectiveNamed("all_reduce_v"));
}

TEST(CountFor, PutsTheBytesOnTheLargerSide) {
  for (const Collective collective : All()) {
    if (collective == Collective::barrier || collective == Collective::all_to_all_v) continue;
    for (const int ranks : {1, 2, 3, 8}) {
      constexpr std::size_t kBytes = 1u << 16;
      Operation operation{collective, tuttiFloat32, tuttiSum, 0, CountFor(collective, tuttiFloat32, kBytes, ranks),
                          false};
      const Layout layout = LayoutOf(operation, ranks, 0);
      const std::size_t larger = std::max(layout.send_elements, layout.recv_elements) * sizeof(float);
      EXPECT_EQ(larger, SizeOfLargerSide(operation, ranks)) << NameOf(collective);
      EXPECT_LE(larger, kBytes);
      EXPECT_GT(larger + static_cast<std::size_t>(ranks) * sizeof(float), kBytes);
    }
  }
}

TEST(CountFor, NeverMeasuresNothing) {
  EXPECT_EQ(CountFor(Collective::reduce_scatter, tuttiFloat32, 8, 8), 1u);
  EXPECT_EQ(CountFor(Collective::all_reduce, tuttiFloat64, 4, 2), 1u);
  EXPECT_EQ(CountFor(Collective::all_reduce, tuttiFloat64, 0, 2), 0u);
}

class Shapes : public ::testing::TestWithParam<std::tuple<int, int, bool>> {};

// The segments of an output cover it exactly once and never exceed their source's input.
TEST_P(Shapes, ExpectedOutputTilesTheBuffer) {
  const auto [ranks, root_seed, in_place] = GetParam();
  for (const Collective collective : All()) {
    if (in_place && !CanBeInPlace(collective)) continue;
    for (const std::size_t count : {0u, 1u, 5u}) {
      const Operation operation{collective, tuttiInt32, tuttiSum, root_seed % ranks, count, in_place};
      for (int rank = 0; rank < ranks; ++rank) {
        const Layout layout = LayoutOf(operation, ranks, rank);
        std::vector<int> written(layout.recv_elements, 0);
        for (const Segment& segment : ExpectedOutput(operation, ranks, rank)) {
          ASSERT_LE(segment.output + segment.length, layout.recv_elements) << NameOf(collective);
          for (std::size_t i = 0; i < segment.length; ++i) ++written[segment.output + i];
          const int source = segment.source == kReduced ? 0 : segment.source;
          EXPECT_LE(segment.input + segment.length, LayoutOf(operation, ranks, source).send_elements);
        }
        const bool is_defined = collective != Collective::reduce || rank == operation.root;
        for (const int times : written) EXPECT_EQ(times, is_defined ? 1 : 0) << NameOf(collective) << " rank " << rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RanksRootsPlaces, Shapes,
                         ::testing::Combine(::testing::Values(1, 2, 3, 8), ::testing::Values(0, 5), ::testing::Bool()));

TEST(AlltoallV, BothSidesAgreeAndBlocksDiffer) {
  const Operation operation{Collective::all_to_all_v, tuttiInt8, tuttiSum, 0, 6, false};
  EXPECT_EQ(BlockElements(operation, 0, 0), 3u);
  EXPECT_EQ(BlockElements(operation, 0, 1), 6u);
  EXPECT_EQ(BlockElements(operation, 1, 1), 9u);
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int rank = 0; rank < 5; ++rank) {
    sent += LayoutOf(operation, 5, rank).send_elements;
    received += LayoutOf(operation, 5, rank).recv_elements;
  }
  EXPECT_EQ(sent, received);
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::all_to_all, 2), 0.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::reduce, 4), 1);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::send_recv, 4), 1);
}

}  // namespace
}  // namespace tutti::bench
