#include "tutti/parallel/pipeline.h"

#include <array>
#include <cstddef>
#include <deque>
#include <memory>

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

// The chunks of a stage, as a schedule places them.
std::deque<SplitStage> ChunksOf(int stage, const PipelineSchedule& schedule, std::size_t rows = 1) {
  std::deque<SplitStage> chunks;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) chunks.emplace_back(chunk_number(schedule, stage, chunk), rows);
  return chunks;
}
std::vector<PipelineStep*> StepsOf(std::deque<SplitStage>& chunks) {
  std::vector<PipelineStep*> steps;
  for (auto& chunk : chunks) steps.push_back(&chunk);
  return steps;
}

// In a loop the last stage sends to the first one; in a V, and alone, a stage sends nothing to itself.
TEST_P(PipelineRanks, GradientsOfSeveralChunksAreTheUnsplitModels) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const int stages = self.size();
    for (const auto& [name, chunks] : {std::pair{"Interleaved1F1B", 1}, {"Interleaved1F1B", 3}, {"ZB-V", 2}}) {
      PipelineParallel pipeline(group, EndsOf(self.rank(), get_schedule(name, stages, 1, chunks)));
      for (const int microbatches : {1, 2, 4, 7, 16}) {
        const auto schedule = get_schedule(name, stages, microbatches, chunks);
        auto model = ChunksOf(self.rank(), schedule);
        const auto before = group.bytes_sent();
        pipeline.run(schedule, StepsOf(model));
        EXPECT_EQ(group.bytes_sent() == before, stages == 1);
        for (int chunk = 0; chunk < chunks; ++chunk) {
          ExpectGradientsOfUnsplit(model[static_cast<std::size_t>(chunk)], chunk_number(schedule, self.rank(), chunk),
                                   stages * chunks, microbatches);
        }
      }
    }
    self.Meet();
  });
}

// What the stages take and give is found by asking, and again where the first stage says so.
TEST_P(PipelineRanks, ChunksAreAskedWhatTheyGive) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const auto schedule = zero_bubble_v(self.size(), 5);
    const int last = 2 * self.size() - 1;
    std::vector<int> asked;
    PipelineParallel pipeline(group, [&](int chunk, const auto& takes) -> std::optional<TensorSpec> {
      asked.push_back(chunk);
      const int number = chunk_number(schedule, self.rank(), chunk);
      EXPECT_EQ(takes, Between(number - 1, last + 1));
      return Between(number, last + 1);
    });
    for (int batch = 0; batch < 3; ++batch) {
      auto model = ChunksOf(self.rank(), schedule);
      if (batch == 2 && self.rank() == 0) pipeline.ask_again();
      pipeline.run(schedule, StepsOf(model));
      for (const int chunk : {0, 1}) {
        ExpectGradientsOfUnsplit(model[static_cast<std::size_t>(chunk)], chunk_number(schedule, self.rank(), chunk),
                                 last + 1, 5);
      }
    }
    EXPECT_EQ(asked, (std::vector{0, 1, 0, 1}));
    self.Meet();
  });
}

// Counts the bytes that it has given away and that nobody has freed.
struct Counted {
  std::shared_ptr<std::size_t> bytes = std::make_shared<std::size_t>(0);

  std::shared_ptr<void> operator()(std::size_t size) const {
    *bytes += size;
    return {new std::byte[size], [bytes = bytes, size](void* memory) {
              *bytes -= size;
              delete[] static_cast<std::byte*>(memory);
            }};
  }
};

// Microbatches of other lengths: the first stage says so, and each chunk gives what follows from what it takes. The
// pipeline has no more memory than one that never had another length.
TEST_P(PipelineRanks, AskedAgainForOtherShapes) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    constexpr int kMicrobatches = 5;
    const auto schedule = zero_bubble_v(self.size(), kMicrobatches);
    const int all = 2 * self.size();
    std::size_t rows = 0;  // of a microbatch
    int asked = 0;
    const auto gives = [&](int chunk, const auto& takes) -> std::optional<TensorSpec> {
      ++asked;
      const int number = chunk_number(schedule, self.rank(), chunk);
      EXPECT_EQ(takes.has_value(), number > 0);
      if (number == all - 1) return std::nullopt;
      return TensorSpec{{(takes ? takes->shape.front() : rows) + 1, toy::kColumns}, tuttiFloat32};
    };
    const auto run = [&](PipelineParallel& pipeline) {
      auto model = ChunksOf(self.rank(), schedule, rows);
      pipeline.run(schedule, StepsOf(model));
      for (const int chunk : {0, 1}) {
        ExpectGradientsOfUnsplit(model[static_cast<std::size_t>(chunk)], chunk_number(schedule, self.rank(), chunk),
                                 all, kMicrobatches, rows);
      }
    };
    const Counted memory, of_one_length;
    PipelineParallel pipeline(group, gives, memory);
    // 4, 6 and 2 have sizes in common, of which they need different numbers.
    for (const std::size_t length : {4, 4, 6, 2, 20, 4}) {
      if (length != rows && self.rank() == 0) pipeline.ask_again();
      asked = length != rows ? 0 : 2;
      rows = length;
      run(pipeline);
      EXPECT_EQ(asked, 2) << rows << " rows";
      PipelineParallel fresh(group, gives, of_one_length);
      run(fresh);
      EXPECT_EQ(*memory.bytes, *of_one_length.bytes) << rows << " rows";
    }
    self.Meet();
  });
}

// Records what it predicts.
class Predicting : public Stage {
 public:
  using Stage::Stage;
  std::vector<toy::Values> predictions;
  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    Stage::forward(microbatch, input, output);
    if (output == nullptr) predictions.push_back(grad_y(microbatch, nullptr));
  }
};

TEST_P(PipelineRanks, ForwardsAlone) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    constexpr int kMicrobatches = 6;
    for (const auto& [name, chunks] : {std::pair{"GPipe", 1}, {"Interleaved1F1B", 2}, {"ZB-H1", 1}, {"ZB-V", 2}}) {
      const auto schedule = forward_only(get_schedule(name, self.size(), kMicrobatches, chunks));
      PipelineParallel pipeline(group, EndsOf(self.rank(), schedule));
      std::deque<Predicting> model;
      std::vector<PipelineStep*> steps;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        steps.push_back(&model.emplace_back(chunk_number(schedule, self.rank(), chunk)));
      }
      pipeline.run(schedule, steps);
      const int all = self.size() * chunks;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        std::vector<toy::Values> expected;
        for (int k = 0; k < kMicrobatches && chunk_number(schedule, self.rank(), chunk) == all - 1; ++k) {
          expected.push_back(toy::DataOf(k));
          for (int layer = 0; layer < all; ++layer) expected.back() = toy::Layer(layer).Forward(expected.back());
        }
        EXPECT_EQ(model[static_cast<std::size_t>(chunk)].predictions, expected) << name;
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
    const int stage = group.rank();
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
