#include "tutti/parallel/pipeline_schedule.h"

#include <array>
#include <iterator>

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

using Exchanges = std::vector<PipelineExchange>;

// Figure 4 of the Megatron-LM paper, lower half: device 1 of 4, first microbatches.
TEST(PipelineSchedule, InterleavedTakesChunksInTurn) {
  const auto first = interleaved_one_forward_one_backward(2, 4, 2).actions[0];
  EXPECT_EQ(first, (Actions{{forward, 0, 0},
                            {forward, 1, 0},
                            {forward, 0, 1},
                            {forward, 1, 1},
                            {forward, 2, 0},
                            {backward, 0, 1},
                            {forward, 3, 0},
                            {backward, 1, 1},
                            {forward, 2, 1},
                            {backward, 0, 0},
                            {forward, 3, 1},
                            {backward, 1, 0},
                            {backward, 2, 1},
                            {backward, 3, 1},
                            {backward, 2, 0},
                            {backward, 3, 0}}));
}

// Figure 3 of the zero-bubble paper, upper half, with fewer stages and microbatches.
TEST(PipelineSchedule, ZeroBubbleH1DoesWeightsLater) {
  const auto schedule = zero_bubble_h1(2, 2);
  EXPECT_EQ(schedule.actions[0], (Actions{{forward, 0},
                                          {forward, 1},
                                          {backward_input, 0},
                                          {backward_weight, 0},
                                          {backward_input, 1},
                                          {backward_weight, 1}}));
  EXPECT_EQ(schedule.actions[1], (Actions{{forward, 0},
                                          {backward_input, 0},
                                          {forward, 1},
                                          {backward_input, 1},
                                          {backward_weight, 0},
                                          {backward_weight, 1}}));
}

// Rounds of three and two microbatches.
TEST(PipelineSchedule, InterleavedTakesMoreOfAChunkAtOnceWhereStagesDoNotDivide) {
  const auto last = interleaved_one_forward_one_backward(2, 5, 2).actions[1];
  EXPECT_EQ((Actions{last.begin(), last.begin() + 7}), (Actions{{forward, 0, 0},
                                                                {forward, 1, 0},
                                                                {forward, 2, 0},
                                                                {forward, 0, 1},
                                                                {backward, 0, 1},
                                                                {forward, 1, 1},
                                                                {backward, 1, 1}}));
}

// As the paper draws V-ZB, with fewer stages and microbatches.
TEST(PipelineSchedule, ZeroBubbleVGoesDownAndUp) {
  const auto schedule = zero_bubble_v(2, 3);
  for (int number = 0; number < 4; ++number) {
    const auto [stage, chunk] = chunk_at(schedule, number);
    EXPECT_EQ(stage, (std::array{0, 1, 1, 0})[static_cast<std::size_t>(number)]);
    EXPECT_EQ(chunk, number / 2);
    EXPECT_EQ(chunk_number(schedule, stage, chunk), number);
  }
  EXPECT_EQ(schedule.actions[1], (Actions{{forward, 0, 0},
                                          {forward, 0, 1},
                                          {forward, 1, 0},
                                          {forward, 1, 1},
                                          {backward_input, 0, 1},
                                          {backward_weight, 0, 1},
                                          {forward, 2, 0},
                                          {backward_input, 0, 0},
                                          {backward_weight, 0, 0},
                                          {forward, 2, 1},
                                          {backward_input, 1, 1},
                                          {backward_weight, 1, 1},
                                          {backward_input, 1, 0},
                                          {backward_input, 2, 1},
                                          {backward_input, 2, 0},
                                          {backward_weight, 1, 0},
                                          {backward_weight, 2, 1},
                                          {backward_weight, 2, 0}}));
  // The last stage gives its first chunk's result to its second one.
  EXPECT_EQ(transfer_of(schedule, 1, {forward, 0, 0}), (PipelineTransfer{{forward, 0, 0}, 1, 1}));
  EXPECT_EQ(transfer_for(schedule, 1, {forward, 0, 1}), (PipelineTransfer{{forward, 0, 0}, 1, 1}));
  for (const auto& places : schedule.exchanges) {
    for (const auto& exchanges : places) {
      for (const auto& [sends, receives] : exchanges) {
        for (const auto& send : sends) EXPECT_NE(send.from, send.to);
        for (const auto& receive : receives) EXPECT_NE(receive.from, receive.to);
      }
    }
  }
}

// The exchanges are Megatron's functions, in the order in which its 1F1B calls them.
TEST(PipelineSchedule, ExchangesFollowFromActions) {
  const auto schedule = one_forward_one_backward(3, 4);
  const auto exchanges = [&](std::size_t place) { return exchanges_before(schedule, 1, place); };
  const auto activation_in = [](int k) { return PipelineTransfer{{forward, k}, 0, 1}; };
  const auto activation_out = [](int k) { return PipelineTransfer{{forward, k}, 1, 2}; };
  const auto gradient_in = [](int k) { return PipelineTransfer{{backward, k}, 2, 1}; };
  const auto gradient_out = [](int k) { return PipelineTransfer{{backward, k}, 1, 0}; };
  EXPECT_EQ(exchanges(0), (Exchanges{{{}, {activation_in(0)}}}));                   // recv_forward
  EXPECT_EQ(exchanges(1), (Exchanges{{{activation_out(0)}, {activation_in(1)}}}));  // send_forward, recv_forward
  EXPECT_EQ(exchanges(2), (Exchanges{{{activation_out(1)}, {gradient_in(0)}}}));    // send_forward_recv_backward
  EXPECT_EQ(exchanges(3), (Exchanges{{{gradient_out(0)}, {activation_in(2)}}}));    // send_backward_recv_forward
  EXPECT_EQ(exchanges(8), (Exchanges{{{gradient_out(3)}, {}}}));                    // send_backward
}

TEST(PipelineSchedule, TheEndsHaveOneNeighbour) {
  const auto schedule = gpipe(2, 1);
  EXPECT_EQ(exchanges_before(schedule, 0, 0), Exchanges{});
  EXPECT_EQ(exchanges_before(schedule, 1, 1), Exchanges{});
  EXPECT_EQ(exchanges_before(schedule, 0, 2), Exchanges{});
}

// Everything that is sent and received at one place.
PipelineExchange Together(const Exchanges& exchanges) {
  PipelineExchange all;
  for (const auto& exchange : exchanges) {
    std::ranges::copy(exchange.sends, std::back_inserter(all.sends));
    std::ranges::copy(exchange.receives, std::back_inserter(all.receives));
  }
  return all;
}

// With one chunk and whole backwards the planner finds the places that follow from the actions.
TEST(PipelineSchedule, ThePlannersPlacesAreThoseOf1F1BAndGPipe) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 1; microbatches <= 12; ++microbatches) {
      for (const char* name : {"GPipe", "1F1B"}) {
        const auto schedule = get_schedule(name, stages, microbatches);
        const auto planned = plan_exchanges(schedule);
        ASSERT_EQ(std::ssize(planned), stages);
        for (int stage = 0; stage < stages; ++stage) {
          const auto& places = planned[static_cast<std::size_t>(stage)];
          for (std::size_t place = 0; place < places.size(); ++place) {
            EXPECT_TRUE(Together(places[place]) == Together(exchanges_before(schedule, stage, place)))
                << name << ", stage " << stage << " of " << stages << ", place " << place;
          }
        }
      }
    }
  }
}

TEST(PipelineSchedule, HasNames) {
  EXPECT_EQ(get_schedule("1F1B", 4, 8).actions, one_forward_one_backward(4, 8).actions);
  EXPECT_EQ(get_schedule("GPipe", 4, 8).actions, gpipe(4, 8).actions);
  EXPECT_EQ(get_schedule("Interleaved1F1B", 4, 8).actions, interleaved_one_forward_one_backward(4, 8, 2).actions);
  EXPECT_EQ(get_schedule("ZB-H1", 4, 8).actions, zero_bubble_h1(4, 8).actions);
  EXPECT_EQ(get_schedule("ZB-V", 4, 8).actions, zero_bubble_v(4, 8).actions);
  EXPECT_TRUE(Throws([] { get_schedule("ZeroBubble", 4, 8); }, tuttiInvalidArgument,
                     {"\"ZeroBubble\"", R"("GPipe", "1F1B", "Interleaved1F1B", "ZB-H1" and "ZB-V")"}));
  EXPECT_TRUE(Throws([] { get_schedule("1F1B", 4, 8, 2); }, tuttiInvalidArgument,
                     {"\"1F1B\" has 1 model chunk a stage, but 2 were requested", "Interleaved1F1B"}));
  EXPECT_TRUE(Throws([] { get_schedule("ZB-V", 4, 8, 1); }, tuttiInvalidArgument,
                     {"\"ZB-V\" has 2 model chunks a stage, but 1 were requested"}));
  EXPECT_TRUE(Throws([] { get_schedule("Interleaved1F1B", 4, 8, 0); }, tuttiInvalidArgument, {"0 model chunks"}));
  EXPECT_TRUE(Throws([] { gpipe(0, 8); }, tuttiInvalidArgument, {"0 stages"}));
  EXPECT_TRUE(Throws([] { one_forward_one_backward(4, -1); }, tuttiInvalidArgument, {"-1 microbatches"}));
}

}  // namespace
}  // namespace tutti::parallel
