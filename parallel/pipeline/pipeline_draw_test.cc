#include "tutti/parallel/pipeline_draw.h"

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto place = text.find(part); place != std::string::npos; place = text.find(part, place + 1)) ++count;
  return count;
}

PipelineTimeline Usual(const PipelineSchedule& schedule) {
  return pipeline_simulate(schedule, PipelineDurations::uniform(schedule.stages, 1, 2));
}

TEST(PipelineDraw, EveryActionHasABoxAndItsNumber) {
  const auto schedule = one_forward_one_backward(3, 5);
  const auto svg = draw(schedule, Usual(schedule));
  // Boxes of three stages, their idle time, three colours of the legend, the paper.
  EXPECT_EQ(Count(svg, "<rect "), 3u * 5 * 2 + 3 + 3 + 1);
  EXPECT_EQ(Count(svg, ">4</text>"), 3u * 2);
  EXPECT_EQ(Count(svg, ">5</text>"), 0u);
  EXPECT_EQ(Count(svg, "bubble 28.6 %"), 1u);
}

TEST(PipelineDraw, NamesDoNotBreakThePage) {
  auto schedule = gpipe(1, 1);
  schedule.name = "a<b&c";
  EXPECT_EQ(Count(draw(schedule, Usual(schedule)), "a&lt;b&amp;c: 1 stages"), 1u);
}

// Each kind of pass has its own colour, a later chunk another; the legend names those that are there.
TEST(PipelineDraw, PassesAndChunksAreToldApart) {
  const auto split = zero_bubble_h1(3, 4);
  const auto svg = draw(split, Usual(split));
  EXPECT_EQ(Count(svg, "#9cc3ea"), 3u * 4 + 1);
  EXPECT_EQ(Count(svg, "#a9dbab"), 3u * 4 + 1);
  EXPECT_EQ(Count(svg, "#f2c078"), 3u * 4 + 1);
  EXPECT_EQ(Count(svg, "backward for the weights"), 1u);
  const auto interleaved = interleaved_one_forward_one_backward(2, 4, 2);
  const auto all = draw({{split, Usual(split)}, {interleaved, Usual(interleaved)}});
  EXPECT_EQ(Count(all, "#cbdff5"), 2u * 4);
  EXPECT_EQ(Count(all, "#d5efd6"), 2u * 4);
  EXPECT_EQ(Count(all, ": 3 stages, 4 microbatches, bubble"), 1u);
  EXPECT_EQ(Count(all, ": 2 stages of 2 chunks, 4 microbatches, bubble"), 1u);
  EXPECT_EQ(draw_text(interleaved_one_forward_one_backward(1, 1, 2), {{{{0, 1}, {1, 2}, {2, 4}, {4, 6}}}}),
            "Interleaved1F1B: 1 stages of 2 chunks, 1 microbatches, bubble 0.0 %\n"
            "stage 0 |F0|f0|b0   |B0   |\n");
}

TEST(PipelineDraw, ForTerminals) {
  const auto schedule = one_forward_one_backward(2, 3);
  EXPECT_EQ(draw_text(schedule, Usual(schedule)),
            "1F1B: 2 stages, 3 microbatches, bubble 25.0 %\n"
            "stage 0 |F0|F1|......B0   |F2|B1   |...B2   |\n"
            "stage 1 |...F0|B0   |F1|B1   |F2|B2   |......\n");
}

// As measured: times that begin anywhere, and an action too short for a box.
TEST(PipelineDraw, WhateverTheTimes) {
  const auto schedule = gpipe(1, 1);
  const PipelineTimeline measured{{{{1000.5, 1001}, {1001.5, 1002.5}}}};
  EXPECT_EQ(draw_text(schedule, measured),
            "GPipe: 1 stages, 1 microbatches, bubble 25.0 %\n"
            "stage 0 |F0|...B0   |\n");
  EXPECT_NO_THROW(draw_text(schedule, {{{{0, 0}, {0, 0}}}}));
  EXPECT_NO_THROW(draw(schedule, {{{}}}));
}

}  // namespace
}  // namespace tutti::parallel
