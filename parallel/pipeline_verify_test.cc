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

// Stage 0 wants microbatch 0's gradient before it sends the activation that stage 1 wants first.
TEST(PipelineVerify, Deadlock) {
  PipelineSchedule schedule{"stuck", 2, 2, {}};
  schedule.actions = {{{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}}, gpipe(2, 2).actions[1]};
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "deadlock: stage 0 waits for the gradient of microbatch 0 from stage 1; "
            "stage 1 waits for the activation of microbatch 1 from stage 0");
}

// Stage 0 gives a third microbatch before it takes a gradient, stage 1 gives a gradient before it takes a third
// microbatch.
TEST(PipelineVerify, WhatOnlyBuffersWouldSave) {
  auto schedule = gpipe(2, 4);
  schedule.actions[1] = {{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1},
                         {forward, 2}, {forward, 3}, {backward, 2}, {backward, 3}};
  EXPECT_EQ(pipeline_verify(schedule).problem,
            "deadlock: stage 0 waits to send the activation of microbatch 2 to stage 1; "
            "stage 1 waits to send the gradient of microbatch 0 to stage 0");
}

TEST(PipelineVerify, Sizes) {
  auto schedule = gpipe(2, 2);
  schedule.stages = 3;
  EXPECT_EQ(pipeline_verify(schedule).problem, "it has actions of 2 stages, but 3 stages");
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
