#include "tutti/parallel/pipeline_verify.h"

#include <algorithm>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

using enum PipelinePass;

std::vector<PipelineAction>& ActionsOf(PipelineSchedule& schedule, int stage) {
  return schedule.actions[static_cast<std::size_t>(stage)];
}

TEST(PipelineVerify, SchedulesOfEverySize) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 1; microbatches <= 16; ++microbatches) {
      const auto all_first = pipeline_verify(gpipe(stages, microbatches));
      EXPECT_EQ(all_first.problem, "") << stages << " stages, " << microbatches << " microbatches";
      const auto alternating = pipeline_verify(one_forward_one_backward(stages, microbatches));
      EXPECT_EQ(alternating.problem, "") << stages << " stages, " << microbatches << " microbatches";
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(all_first.activations[static_cast<std::size_t>(stage)], microbatches);
        EXPECT_EQ(alternating.activations[static_cast<std::size_t>(stage)], std::min(stages - stage, microbatches));
      }
    }
  }
}

// Peaks of activations: Megatron-LM's (Korthikanti et al. 2022: 1 + (p - 1) / (p v) of 1F1B's, on the first stage,
// whose activations are v times as large), and the zero-bubble paper's.
TEST(PipelineVerify, InterleavedAndZeroBubbleOfEverySize) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int microbatches = 1; microbatches <= 3 * stages; ++microbatches) {
        const auto verdict = pipeline_verify(interleaved_one_forward_one_backward(stages, microbatches, chunks));
        EXPECT_EQ(verdict.problem, "") << stages << " stages, " << microbatches << " microbatches, " << chunks;
        const int rounds = std::max(1, microbatches / stages), round = (microbatches + rounds - 1) / rounds;
        for (int stage = 0; stage < stages; ++stage) {
          EXPECT_EQ(verdict.activations[static_cast<std::size_t>(stage)],
                    std::min((chunks - 1) * round + 2 * (stages - stage - 1) + 1, microbatches * chunks));
        }
        if (microbatches == stages || microbatches % stages != 0) continue;
        EXPECT_EQ(verdict.activations.front(), stages * chunks + stages - 1);
      }
    }
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      const auto verdict = pipeline_verify(zero_bubble_h1(stages, microbatches));
      EXPECT_EQ(verdict.problem, "") << stages << " stages, " << microbatches << " microbatches";
      for (const int held : verdict.activations) EXPECT_EQ(held, std::min(stages, microbatches));
      const auto v = pipeline_verify(zero_bubble_v(stages, microbatches));
      EXPECT_EQ(v.problem, "") << stages << " stages, " << microbatches << " microbatches";
      for (const int held : v.activations) EXPECT_LE(held, 2 * std::min(stages, microbatches));
    }
  }
}

TEST(PipelineVerify, ForwardsAlone) {
  for (const auto& [name, chunks] : {std::pair{"GPipe", 1}, {"1F1B", 1}, {"Interleaved1F1B", 3}, {"ZB-V", 2}}) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int microbatches = 1; microbatches <= 12; ++microbatches) {
        const auto schedule = forward_only(get_schedule(name, stages, microbatches, chunks));
        EXPECT_EQ(pipeline_verify(schedule).problem, "") << name << ", " << stages << ", " << microbatches;
      }
    }
  }
  auto schedule = forward_only(gpipe(2, 2));
  ActionsOf(schedule, 1).push_back({backward, 0});
  schedule.exchanges.clear();
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 1 does the backward of microbatch 0, but the schedule has forwards only");
}

// What a stage gives itself must be there, too.
TEST(PipelineVerify, AChunkBeforeTheOneThatItNeedsOfTheSameStage) {
  auto schedule = zero_bubble_v(2, 2);
  std::swap(ActionsOf(schedule, 1)[0], ActionsOf(schedule, 1)[1]);
  schedule.exchanges.clear();
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 1 does the forward of microbatch 0 in chunk 1 before it receives the activation of microbatch 0");
}

TEST(PipelineVerify, PartsOfBackwards) {
  auto schedule = zero_bubble_h1(2, 3);
  std::erase(ActionsOf(schedule, 1), PipelineAction{backward_weight, 1});
  schedule.exchanges.clear();
  EXPECT_EQ(pipeline_verify(schedule).problem, "stage 1 never does the backward for the weights of microbatch 1");
  schedule = zero_bubble_h1(2, 3);
  std::swap(ActionsOf(schedule, 0)[2], ActionsOf(schedule, 0)[3]);
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 0 does the backward for the weights of microbatch 0 before the backward for the input");
  schedule = zero_bubble_h1(2, 3);
  ActionsOf(schedule, 0)[3] = {backward, 0};
  EXPECT_EQ(pipeline_verify(schedule).problem, "stage 0 does the backward of microbatch 0 twice");
}

TEST(PipelineVerify, Chunks) {
  auto schedule = interleaved_one_forward_one_backward(2, 2, 2);
  ActionsOf(schedule, 0)[3].chunk = 2;
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 0 does the forward of microbatch 1 in chunk 2, but the chunks are 0 .. 1");
  schedule = interleaved_one_forward_one_backward(2, 2, 2);
  ActionsOf(schedule, 0)[3].chunk = 0;
  EXPECT_EQ(pipeline_verify(schedule).problem, "stage 0 does the forward of microbatch 1 twice");
}

// Two messages of a stage to the same neighbour are received the other way round.
TEST(PipelineVerify, MessagesOfAPairInAnotherOrder) {
  auto schedule = interleaved_one_forward_one_backward(2, 4, 2);
  const PipelineTransfer second{{forward, 1, 0}, 0, 1};
  for (auto& exchanges : schedule.exchanges[1]) {
    for (auto& exchange : exchanges) std::erase(exchange.receives, second);
  }
  auto& receives = schedule.exchanges[1].front().front().receives;
  receives.insert(receives.begin(), second);
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 1 expects the activation of microbatch 1 from stage 0, which sends the activation of microbatch 0");
}

TEST(PipelineVerify, ExchangesThatDoNotFitTheActions) {
  const auto original = interleaved_one_forward_one_backward(2, 4, 2);
  auto schedule = original;
  schedule.exchanges[0].pop_back();
  EXPECT_EQ(
      pipeline_verify(schedule).problem,
      "stage 0 has 16 places for exchanges, but 16 actions: it needs one before each action and one after the last");
  schedule = original;
  schedule.exchanges[1][0].clear();
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 1 does the forward of microbatch 0 before it receives the activation of microbatch 0");
  schedule = original;
  std::swap(schedule.exchanges[0][0], schedule.exchanges[0][1]);
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 0 sends the activation of microbatch 0, which it has not just made");
  schedule = original;
  schedule.exchanges[0].back().push_back(schedule.exchanges[0][1].front());
  EXPECT_NE(pipeline_verify(schedule).problem, "");
  for (std::size_t stage = 0; stage < 2; ++stage) {
    for (std::size_t place = 0; place < original.exchanges[stage].size(); ++place) {
      if (original.exchanges[stage][place].empty()) continue;
      schedule = original;
      schedule.exchanges[stage][place].clear();
      EXPECT_NE(pipeline_verify(schedule).problem, "") << "stage " << stage << ", place " << place;
    }
  }
}

TEST(PipelineVerify, MissingAction) {
  auto schedule = one_forward_one_backward(3, 4);
  std::erase(ActionsOf(schedule, 1), PipelineAction{backward, 2});
  EXPECT_EQ(pipeline_verify(schedule).problem, "stage 1 never does the backward of microbatch 2");
  std::erase(ActionsOf(schedule, 0), PipelineAction{forward, 3});
  std::erase(ActionsOf(schedule, 0), PipelineAction{backward, 3});
  EXPECT_EQ(pipeline_verify(schedule).problem, "stage 0 never does the forward of microbatch 3");
}

TEST(PipelineVerify, ActionDoneTwice) {
  auto schedule = gpipe(2, 2);
  ActionsOf(schedule, 1).push_back({forward, 1});
  EXPECT_EQ(pipeline_verify(schedule).problem, "stage 1 does the forward of microbatch 1 twice");
}

TEST(PipelineVerify, BackwardBeforeForward) {
  auto schedule = one_forward_one_backward(2, 3);
  std::swap(ActionsOf(schedule, 1)[0], ActionsOf(schedule, 1)[1]);
  EXPECT_EQ(pipeline_verify(schedule).problem, "stage 1 does the backward of microbatch 0 before its forward");
}

TEST(PipelineVerify, AnotherOrderThanTheNeighbours) {
  auto schedule = gpipe(3, 4);
  std::swap(ActionsOf(schedule, 1)[2], ActionsOf(schedule, 1)[3]);
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 1 expects the activation of microbatch 3 from stage 0, which sends the activation of microbatch 2");
}

// Stage 0 waits for microbatch 0's gradient before it sends the activation that stage 1 needs first.
TEST(PipelineVerify, Deadlock) {
  PipelineSchedule schedule{"stuck", 2, 2, {}};
  schedule.actions = {{{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}}, gpipe(2, 2).actions[1]};
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "deadlock: stage 0 waits for the gradient of microbatch 0 from stage 1; "
            "stage 1 waits for the activation of microbatch 1 from stage 0");
}

// Stage 0 gives a third microbatch before it takes a gradient, and stage 1 gives a gradient before it takes a third
// microbatch.
TEST(PipelineVerify, WhatOnlyBuffersWouldSave) {
  auto schedule = gpipe(2, 4);
  schedule.actions[1] = {{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1},
                         {forward, 2}, {forward, 3}, {backward, 2}, {backward, 3}};
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "deadlock: stage 0 waits to send the activation of microbatch 2 to stage 1; "
            "stage 1 waits to send the gradient of microbatch 0 to stage 0");
}

// The same schedule passes if it exchanges at other times.
TEST(PipelineVerify, WhatAPlanSaves) {
  auto schedule = gpipe(2, 4);
  schedule.actions[1] = {{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1},
                         {forward, 2}, {forward, 3}, {backward, 2}, {backward, 3}};
  schedule.exchanges = plan_exchanges(schedule);
  EXPECT_EQ(pipeline_verify(schedule).problem, "");
  // A schedule that waits for itself has no plan.
  schedule.actions[0] = {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1},
                         {forward, 2}, {backward, 2}, {forward, 3}, {backward, 3}};
  EXPECT_TRUE(plan_exchanges(schedule).empty());
}

TEST(PipelineVerify, Sizes) {
  auto schedule = gpipe(2, 2);
  schedule.stages = 3;
  EXPECT_EQ(pipeline_verify(schedule).problem, "it has actions for 2 stages, but 3 stages are declared");
  EXPECT_EQ(pipeline_verify({}).problem, "it has 0 stages; at least 1 is needed");
  schedule = gpipe(2, 2);
  ActionsOf(schedule, 0).push_back({forward, 2});
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "stage 0 does the forward of microbatch 2, but the microbatches are 0 .. 1");
  EXPECT_TRUE(Throws([&] { require_verified(schedule); }, tuttiInvalidArgument,
                     {"schedule \"GPipe\" cannot be run", "microbatch 2"}));
}

// Within one stage, a forward swapped with a forward or a backward with a backward is another order than the
// neighbours'.
TEST(PipelineVerify, SwapsOfLikeActionsAreRefused) {
  for (const auto& original : {gpipe(3, 4), one_forward_one_backward(3, 4)}) {
    for (int stage = 0; stage < 3; ++stage) {
      const auto count = original.actions[static_cast<std::size_t>(stage)].size();
      for (std::size_t place = 0; place + 1 < count; ++place) {
        auto schedule = original;
        auto& actions = ActionsOf(schedule, stage);
        if (actions[place].pass != actions[place + 1].pass) continue;
        std::swap(actions[place], actions[place + 1]);
        EXPECT_NE(pipeline_verify(schedule).problem, "") << original.name << ", stage " << stage << ", " << place;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::parallel
