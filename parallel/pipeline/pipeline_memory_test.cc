#include "parallel/pipeline/pipeline_memory.h"

#include <algorithm>

#include "parallel/testing.h"
#include "tutti/parallel/pipeline_verify.h"

namespace tutti::parallel {
namespace {

// The most buffers of that kind, of all chunks together, that `stage` has in use.
int MostOf(PipelineBuffer kind, const PipelineSchedule& schedule, int stage) {
  const auto most =
      most_in_use(schedule, stage, [&](const BufferUse& use) { return static_cast<std::size_t>(use.buffer == kind); });
  return most.contains(1) ? static_cast<int>(most.at(1)) : 0;
}

// A stage holds the inputs of the activations that the papers count; and, interleaved, those that came early.
TEST(PipelineMemory, InputsAreThePapersActivations) {
  for (int stages = 2; stages <= 8; ++stages) {
    for (const int microbatches : {1, 3, 8, 16}) {
      for (const char* name : {"GPipe", "1F1B", "ZB-H1"}) {
        const auto schedule = get_schedule(name, stages, microbatches);
        const auto activations = pipeline_verify(schedule).activations;
        EXPECT_EQ(MostOf(PipelineBuffer::input, schedule, 0), 0) << "the first stage has data";
        for (int stage = 1; stage < stages; ++stage) {
          EXPECT_EQ(MostOf(PipelineBuffer::input, schedule, stage), activations[static_cast<std::size_t>(stage)])
              << name << ", stage " << stage << " of " << stages << ", " << microbatches << " microbatches";
        }
      }
    }
    for (const int chunks : {2, 4}) {
      const auto schedule = interleaved_one_forward_one_backward(stages, 2 * stages, chunks);
      const auto activations = pipeline_verify(schedule).activations;
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_LE(MostOf(PipelineBuffer::input, schedule, stage), activations[static_cast<std::size_t>(stage)] + stages)
            << "stage " << stage << " of " << stages << " with " << chunks << " chunks";
      }
    }
  }
}

// A result is freed at the next exchange, unless a plan says otherwise.
TEST(PipelineMemory, OneOutputAndOneGradientEachWay) {
  for (const auto& schedule : {gpipe(4, 8), one_forward_one_backward(4, 8)}) {
    for (const auto kind : {PipelineBuffer::output, PipelineBuffer::grad_output, PipelineBuffer::grad_input}) {
      EXPECT_EQ(MostOf(kind, schedule, 1), 1) << schedule.name;
    }
  }
}

// A forward is the last to read its input if there are no backwards.
TEST(PipelineMemory, ForwardsAloneHoldNothing) {
  for (const char* name : {"GPipe", "1F1B", "ZB-H1"}) {
    const auto schedule = forward_only(get_schedule(name, 4, 8));
    for (const auto kind : {PipelineBuffer::input, PipelineBuffer::output}) EXPECT_EQ(MostOf(kind, schedule, 1), 1);
    for (const auto kind : {PipelineBuffer::grad_output, PipelineBuffer::grad_input}) {
      EXPECT_EQ(MostOf(kind, schedule, 1), 0);
    }
  }
}

// What a stage gives itself is one buffer, not two: a microbatch in flight has its input and a gradient.
TEST(PipelineMemory, AStageGivesItselfWhatItMade) {
  const auto most = most_in_use(zero_bubble_v(1, 8), 0, [](const BufferUse&) { return std::size_t{64}; });
  ASSERT_EQ(most.size(), 1u);
  EXPECT_EQ(most.at(64), 2u);
}

// A gradient is needed until the weights' part of its backward is done.
TEST(PipelineMemory, ZeroBubbleKeepsGradientsForTheWeights) {
  const auto schedule = zero_bubble_h1(4, 8);
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(MostOf(PipelineBuffer::grad_output, schedule, stage), stage + 1);
    EXPECT_EQ(MostOf(PipelineBuffer::grad_input, schedule, stage), stage == 0 ? 0 : 1);
  }
}

// Buffers of one size serve all tensors that need as much.
TEST(PipelineMemory, SizesShareMemory) {
  const auto schedule = interleaved_one_forward_one_backward(4, 8, 2);
  const auto apart = most_in_use(schedule, 1, [](const BufferUse& use) {
    return 1 + 4 * static_cast<std::size_t>(use.chunk) + static_cast<std::size_t>(use.buffer);
  });
  const auto together = most_in_use(schedule, 1, [](const BufferUse&) { return std::size_t{64}; });
  std::size_t sum = 0;
  for (const auto& [bytes, count] : apart) sum += count;
  ASSERT_EQ(together.size(), 1u);
  EXPECT_LT(together.at(64), sum);
}

}  // namespace
}  // namespace tutti::parallel
