#include "tutti/parallel/pipeline_schedule.h"

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

using enum PipelinePass;
using Actions = std::vector<PipelineAction>;

TEST(PipelineSchedule, GPipeDoesAllForwardsFirst) {
  const auto schedule = gpipe(2, 2);
  const Actions all{{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1}};
  EXPECT_EQ(schedule.actions, (std::vector{all, all}));
}

// Figure 4 of the Megatron-LM paper, upper half, with fewer microbatches.
TEST(PipelineSchedule, OneForwardOneBackwardAlternates) {
  const auto schedule = one_forward_one_backward(3, 4);
  EXPECT_EQ(schedule.actions[0], (Actions{{forward, 0},
                                          {forward, 1},
                                          {forward, 2},
                                          {backward, 0},
                                          {forward, 3},
                                          {backward, 1},
                                          {backward, 2},
                                          {backward, 3}}));
  EXPECT_EQ(schedule.actions[2], (Actions{{forward, 0},
                                          {backward, 0},
                                          {forward, 1},
                                          {backward, 1},
                                          {forward, 2},
                                          {backward, 2},
                                          {forward, 3},
                                          {backward, 3}}));
}

TEST(PipelineSchedule, WithFewMicrobatchesThereIsNothingToAlternate) {
  EXPECT_EQ(one_forward_one_backward(4, 2).actions[0], gpipe(4, 2).actions[0]);
}

// Megatron's functions, in the order in which its 1F1B calls them, fall out.
TEST(PipelineSchedule, ExchangesFollowFromActions) {
  const auto schedule = one_forward_one_backward(3, 4);
  const auto exchange = [&](std::size_t place) { return exchange_before(schedule, 1, place); };
  const PipelineTransfer activation_in{{forward, 0}, 0, 1}, activation_out{{forward, 0}, 1, 2};
  EXPECT_EQ(exchange(0).receive, activation_in);  // recv_forward
  EXPECT_FALSE(exchange(0).send);
  EXPECT_EQ(exchange(1).send, activation_out);  // send_forward, recv_forward
  EXPECT_EQ(exchange(1).receive, (PipelineTransfer{{forward, 1}, 0, 1}));
  EXPECT_EQ(exchange(2).send, (PipelineTransfer{{forward, 1}, 1, 2}));  // send_forward_recv_backward
  EXPECT_EQ(exchange(2).receive, (PipelineTransfer{{backward, 0}, 2, 1}));
  EXPECT_EQ(exchange(3).send, (PipelineTransfer{{backward, 0}, 1, 0}));  // send_backward_recv_forward
  EXPECT_EQ(exchange(3).receive, (PipelineTransfer{{forward, 2}, 0, 1}));
  EXPECT_EQ(exchange(8).send, (PipelineTransfer{{backward, 3}, 1, 0}));  // send_backward
  EXPECT_FALSE(exchange(8).receive);
}

TEST(PipelineSchedule, TheEndsHaveOneNeighbour) {
  const auto schedule = gpipe(2, 1);
  EXPECT_FALSE(exchange_before(schedule, 0, 0).receive);
  EXPECT_FALSE(exchange_before(schedule, 1, 1).send);
  EXPECT_FALSE(exchange_before(schedule, 1, 1).receive);
  EXPECT_FALSE(exchange_before(schedule, 0, 2).send);
}

TEST(PipelineSchedule, HasNames) {
  EXPECT_EQ(get_schedule("1F1B", 4, 8).actions, one_forward_one_backward(4, 8).actions);
  EXPECT_EQ(get_schedule("GPipe", 4, 8).actions, gpipe(4, 8).actions);
  EXPECT_TRUE(Throws([] { get_schedule("ZeroBubble", 4, 8); }, tuttiInvalidArgument,
                     {"\"ZeroBubble\"", "\"GPipe\" and \"1F1B\""}));
  EXPECT_TRUE(Throws([] { gpipe(0, 8); }, tuttiInvalidArgument, {"0 stages"}));
  EXPECT_TRUE(Throws([] { one_forward_one_backward(4, -1); }, tuttiInvalidArgument, {"-1 microbatches"}));
}

}  // namespace
}  // namespace tutti::parallel
