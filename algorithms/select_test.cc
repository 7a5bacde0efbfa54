#include "algorithms/select.h"

#include <gtest/gtest.h>

#include "algorithms/build.h"

namespace tutti {
namespace {

constexpr std::size_t kCapacity = 200'000;

SelectInput Input(Collective collective, int nranks, std::size_t bytes) {
  SelectInput input;
  input.collective = collective;
  input.nranks = nranks;
  input.bytes = bytes;
  input.max_channels = 2;
  input.bulk_capacity = kCapacity;
  return input;
}

std::size_t CapacityOf(Wire wire) {
  return wire == Wire::line ? kLineShape.capacity : wire == Wire::inlined ? kInlineShape.capacity : kCapacity;
}

// Whatever is asked, the answer can be built and fits its slots.
TEST(Select, AlwaysAnswersWithSomethingThatWorks) {
  for (int c = 0; c < kScheduledCollectives; ++c) {
    for (const int nranks : {1, 2, 3, 8, 64, 65, 100}) {
      for (const std::size_t bytes : {0, 1, 48, 49, 1456, 1457, 16'384, 32'769, 1 << 20, 1 << 30}) {
        for (int forced = 0; forced < tuttiNumAlgorithms; ++forced) {
          auto input = Input(static_cast<Collective>(c), nranks, bytes);
          if (forced != 0) input.forced_algorithm = static_cast<tuttiAlgorithm_t>(forced);
          const auto choice = ChooseAlgorithm(input);
          ASSERT_TRUE(Supports(choice.algorithm, input.collective, nranks)) << c << ' ' << nranks << ' ' << forced;
          ASSERT_GE(choice.channels, 1);
          const auto shape = ChooseShape(input, nranks);
          ASSERT_GT(shape.chunk_bytes, 0U);
          ASSERT_LE(shape.chunk_bytes, CapacityOf(shape.wire));
        }
      }
    }
  }
}

TEST(Select, HonoursAForcedAlgorithmAndSaysSo) {
  auto input = Input(Collective::all_reduce, 4, 1 << 20);
  input.forced_algorithm = tuttiAlgorithmRing;
  EXPECT_EQ(ChooseAlgorithm(input).algorithm, tuttiAlgorithmRing);
  EXPECT_STREQ(ChooseAlgorithm(input).reason, "forced");
  input.collective = Collective::all_to_all;
  EXPECT_NE(ChooseAlgorithm(input).algorithm, tuttiAlgorithmRing);
  EXPECT_STRNE(ChooseAlgorithm(input).reason, "forced");
}

TEST(Select, DeterministicMeansAProvenAlgorithm) {
  for (const std::size_t bytes : {8, 1 << 20}) {
    auto input = Input(Collective::all_reduce, 4, bytes);
    input.deterministic = true;
    input.forced_algorithm = tuttiAlgorithmRing;
    const auto algorithm = ChooseAlgorithm(input).algorithm;
    EXPECT_TRUE(algorithm == tuttiAlgorithmDirect || algorithm == tuttiAlgorithmTwoShot);
  }
}

TEST(Select, GroupsManyRanksWhereNothingIsRoundedOnTheWay) {
  auto input = Input(Collective::all_reduce, 64, 16 << 10);
  EXPECT_EQ(ChooseAlgorithm(input).algorithm, tuttiAlgorithmGrouped);
  input.low_precision = true;
  EXPECT_EQ(ChooseAlgorithm(input).algorithm, tuttiAlgorithmDirect) << "one rounding";
  input.low_precision = false;
  input.deterministic = true;
  EXPECT_EQ(ChooseAlgorithm(input).algorithm, tuttiAlgorithmDirect) << "one fixed expression";
  input.deterministic = false;
  input.nranks = 8;
  EXPECT_EQ(ChooseAlgorithm(input).algorithm, tuttiAlgorithmDirect) << "few ranks";
}

TEST(Select, BlocksThatOnlyAPairKnowsTravelInBulk) {
  auto input = Input(Collective::all_to_all, 4, 8);
  EXPECT_EQ(ChooseShape(input, 4).wire, Wire::line);
  input.pairwise = true;
  EXPECT_EQ(ChooseShape(input, 4).wire, Wire::bulk);
  input.forced_algorithm = tuttiAlgorithmBruck;
  EXPECT_NE(ChooseAlgorithm(input).algorithm, tuttiAlgorithmBruck);
}

TEST(Select, ThreadsGetChannels) {
  auto input = Input(Collective::all_reduce, 2, 1 << 20);
  EXPECT_EQ(ChooseAlgorithm(input).channels, 1);
  input.threads = 2;
  EXPECT_EQ(ChooseAlgorithm(input).channels, 2);
  input.bytes = 8;
  EXPECT_EQ(ChooseAlgorithm(input).channels, 1);
}

}  // namespace
}  // namespace tutti
