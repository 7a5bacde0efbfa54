#include "tutti/parallel/pipeline.h"

#include <array>

#include "parallel/pipeline/pipeline_toy.h"
#include "testing/ranks.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/parallel_state.h"

namespace tutti::parallel {
namespace {

using toy::Between;
using toy::EndsOf;
using toy::ExpectGradientsOfUnsplit;
using toy::PipelineOf;
using toy::SplitStage;
using toy::Stage;
using tutti::testing::Ok;
using tutti::testing::Rank;
using tutti::testing::RunRanks;

class PipelineRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Stages, PipelineRanks, ::testing::Range(1, 5));

TEST_P(PipelineRanks, GradientsAreTheUnsplitModels) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    auto pipeline = PipelineOf(group);
    for (const char* name : {"GPipe", "1F1B"}) {
      for (const int microbatches : {1, 2, 4, 7, 16}) {
        Stage step(self.rank());
        pipeline.run(get_schedule(name, self.size(), microbatches), step);
        ExpectGradientsOfUnsplit(step, self.rank(), self.size(), microbatches);
      }
    }
    self.Meet();
  });
}

// With several chunks a stage the last stage sends to the first one; alone, a stage sends to itself.
TEST_P(PipelineRanks, InterleavedGradientsAreTheUnsplitModels) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const int stages = self.size();
    for (const int chunks : {1, 2, 3}) {
      PipelineParallel pipeline(group, EndsOf(self.rank(), stages, chunks));
      for (const int rounds : {1, 2, 4}) {
        std::vector<Stage> model;
        std::vector<PipelineStep*> steps;
        for (int chunk = 0; chunk < chunks; ++chunk) model.emplace_back(chunk * stages + self.rank());
        for (auto& step : model) steps.push_back(&step);
        pipeline.run(interleaved_one_forward_one_backward(stages, rounds * stages, chunks), steps);
        for (int chunk = 0; chunk < chunks; ++chunk) {
          ExpectGradientsOfUnsplit(model[static_cast<std::size_t>(chunk)], chunk * stages + self.rank(),
                                   stages * chunks, rounds * stages);
        }
      }
    }
    self.Meet();
  });
}

TEST_P(PipelineRanks, GradientsInTwoPartsAreTheUnsplitModels) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    auto pipeline = PipelineOf(group);
    for (const char* name : {"ZB-H1", "1F1B"}) {
      for (const int microbatches : {1, 2, 4, 7, 16}) {
        SplitStage step(self.rank());
        pipeline.run(get_schedule(name, self.size(), microbatches), step);
        ExpectGradientsOfUnsplit(step, self.rank(), self.size(), microbatches);
      }
    }
    self.Meet();
  });
}

// Two pipelines side by side, as Megatron lays them out: each is a group of its own.
TEST(Pipeline, OverTheGroupOfParallelState) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    const auto state = initialize_model_parallel(comm, {.pipeline_model_parallel_size = 2});
    auto& group = state->get_pipeline_model_parallel_group();
    const int stage = state->get_pipeline_model_parallel_rank();
    const TensorSpec activation{{2, 3}, tuttiFloat32};
    PipelineParallel pipeline(group, stage == 0 ? std::nullopt : std::optional(activation),
                              stage == 1 ? std::nullopt : std::optional(activation));
    Stage step(stage);
    pipeline.run(one_forward_one_backward(2, 8), step);
    ExpectGradientsOfUnsplit(step, stage, 2, 8);
    self.Meet();
  });
}

// On a stream of the host a step waits for the stream's work before it accesses its tensors.
class StreamedStage : public Stage {
 public:
  StreamedStage(int stage, tuttiStream_t stream) : Stage(stage), stream_(stream) {}
  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    check(tuttiStreamSynchronize(stream_));
    Stage::forward(microbatch, input, output);
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    check(tuttiStreamSynchronize(stream_));
    Stage::backward(microbatch, input, grad_output, grad_input);
  }

 private:
  tuttiStream_t stream_;
};

TEST(Pipeline, OnAStream) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    auto pipeline = PipelineOf(group);
    tuttiStream_t stream = nullptr;
    check(tuttiStreamCreate(&stream));
    StreamedStage step(self.rank(), stream);
    pipeline.run(one_forward_one_backward(3, 6), step, stream);
    EXPECT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
    ExpectGradientsOfUnsplit(step, self.rank(), 3, 6);
    self.Meet();
  });
}

TEST(Pipeline, HasMemoryForTheActivationsInFlight) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const auto allocations = std::make_shared<int>(0);
    PipelineParallel pipeline(group, Between(self.rank() - 1, 3), Between(self.rank(), 3), [&](std::size_t bytes) {
      ++*allocations;
      return allocate_memory(bytes);
    });
    for (int batch = 0; batch < 2; ++batch) {
      Stage step(self.rank());
      pipeline.run(one_forward_one_backward(3, 8), step);
    }
    // Inputs in flight and the gradient by the input, not on the first stage; output and its gradient, not on the last.
    const std::array<int, 3> expected{2, 2 + 1 + 2, 1 + 1};
    EXPECT_EQ(*allocations, expected[static_cast<std::size_t>(self.rank())]);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
