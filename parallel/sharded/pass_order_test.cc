#include "parallel/sharded/pass_order.h"

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

TEST(PassOrder, AForwardGoesThroughItsChunkAndABackwardGoesBack) {
  PassOrder order({0, 0, 0, 1, 1});
  EXPECT_EQ(order.AfterForward(0), 1U);
  EXPECT_EQ(order.AfterForward(1), 2U);
  EXPECT_EQ(order.AfterForward(2), std::nullopt);
  EXPECT_EQ(order.AfterForward(4), std::nullopt);
  EXPECT_EQ(order.AfterBackward(4), 3U);
  EXPECT_EQ(order.AfterBackward(3), std::nullopt);
  EXPECT_EQ(order.AfterBackward(0), std::nullopt);
  EXPECT_EQ(order.AfterBackwardWeight(1), std::nullopt);
}

TEST(PassOrder, TheNextPassIsForTheFirstPassThatEnds) {
  PassOrder order({0, 0, 1});
  order.SetNextPass(2);
  EXPECT_EQ(order.AfterForward(0), 1U);
  EXPECT_EQ(order.AfterForward(1), 2U);
  EXPECT_EQ(order.AfterForward(1), std::nullopt);
  order.SetNextPass(1);
  EXPECT_EQ(order.AfterBackwardWeight(1), std::nullopt);
  EXPECT_EQ(order.AfterBackwardWeight(0), 1U);
  order.SetNextPass(0);
  order.SetNextPass(std::nullopt);
  EXPECT_EQ(order.AfterBackward(0), std::nullopt);
}

TEST(PassOrder, ANextPassNeedsAUnit) {
  PassOrder order({0, 0});
  EXPECT_TRUE(Throws([&] { order.SetNextPass(2); }, tuttiInvalidArgument, {"unit 2 of 2"}));
}

}  // namespace
}  // namespace tutti::parallel
