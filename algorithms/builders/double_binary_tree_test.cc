// The verifier on double binary trees of every size to 256, beyond what it does for every algorithm.
#include <gtest/gtest.h>

#include <optional>

#include "algorithms/builders/builders.h"
#include "algorithms/verifier/verify.h"
#include "algorithms/verifier/verify_testing.h"

namespace tutti::builders {
namespace {

constexpr int kManyRanks = 256;
constexpr int kStride = verifier::kEveryRankCount ? 1 : 51;

TEST(DoubleBinaryTreeSlow, AllReducesOnEveryNumberOfRanks) {
  for (int n = 1; n <= kManyRanks; n += kStride) {
    const auto ranks =
        verifier::BuildEverywhere(tuttiAlgorithmDoubleBinaryTree, ScheduleRequest{Collective::all_reduce, 0, n});
    for (const bool in_place : {false, true}) {
      // Two chunks, twice, with the fewest slots.
      const verifier::VerifyOptions options{
          .lengths = {{2}}, .in_place = in_place, .by_reference = true, .operations = 2};
      ASSERT_EQ(verifier::Verify(ranks, options), std::nullopt) << n << " ranks";
    }
  }
}

}  // namespace
}  // namespace tutti::builders
