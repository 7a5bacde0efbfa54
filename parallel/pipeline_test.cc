#include "tutti/parallel/pipeline.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <stdexcept>

#include "parallel/testing.h"
#include "tests/gpu.h"
#include "tests/ranks.h"
#include "tutti/parallel/parallel_state.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Gpu;
using tutti::testing::Rank;
using tutti::testing::RunOptions;
using tutti::testing::RunRanks;

constexpr std::size_t kColumns = 3;
using Values = std::vector<float>;

// A layer with two parameters whose output has one row more than its input: y = a x + b, and the first row again.
// All numbers are small integers, so every order of adding gives the same floats.
struct Layer {
  float a = 1, b = 0;
  float grad_a = 0, grad_b = 0;

  explicit Layer(int stage) : a(stage % 2 == 0 ? 2.0F : 1.0F), b(static_cast<float>(stage + 1)) {}

  Values Forward(const Values& x) const {
    Values y;
    for (const float each : x) y.push_back(a * each + b);
    y.insert(y.end(), y.begin(), y.begin() + kColumns);
    return y;
  }
  Values Backward(const Values& x, Values grad_y) {
    const std::size_t more = x.size();
    for (std::size_t column = 0; column < kColumns; ++column) grad_y[column] += grad_y[more + column];
    Values grad_x;
    for (std::size_t place = 0; place < x.size(); ++place) {
      grad_a += grad_y[place] * x[place];
      grad_b += grad_y[place];
      grad_x.push_back(grad_y[place] * a);
    }
    return grad_x;
  }
};

Values DataOf(int microbatch) {
  const auto k = static_cast<float>(microbatch);
  return {k, 1 - k, 2};
}

// The whole model on one rank; the loss is half the sum of the squares, so its gradient is the output itself.
std::vector<Layer> Unsplit(int stages, int microbatches) {
  std::vector<Layer> layers;
  for (int stage = 0; stage < stages; ++stage) layers.emplace_back(stage);
  for (int k = 0; k < microbatches; ++k) {
    std::vector<Values> activations{DataOf(k)};
    for (const auto& layer : layers) activations.push_back(layer.Forward(activations.back()));
    Values gradient = activations.back();
    for (std::size_t stage = layers.size(); stage-- > 0;) {
      gradient = layers[stage].Backward(activations[stage], gradient);
    }
  }
  return layers;
}

// One stage of the model: its layer, and at the pipeline's ends the data and the loss.
class Stage : public PipelineStep {
 public:
  explicit Stage(int stage) : layer_(stage) {}
  const Layer& layer() const { return layer_; }

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    const Values y = layer_.Forward(input != nullptr ? ValuesOf(*input) : DataOf(microbatch));
    if (output != nullptr) {
      std::copy(y.begin(), y.end(), output->floats());
    } else {
      predictions_[microbatch] = y;
    }
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    const Values grad_y = grad_output != nullptr ? ValuesOf(*grad_output) : predictions_.at(microbatch);
    const Values grad_x = layer_.Backward(input != nullptr ? ValuesOf(*input) : DataOf(microbatch), grad_y);
    if (grad_input != nullptr) std::copy(grad_x.begin(), grad_x.end(), grad_input->floats());
  }

 private:
  static Values ValuesOf(const Tensor& tensor) { return {tensor.floats(), tensor.floats() + tensor.count()}; }

  Layer layer_;
  std::map<int, Values> predictions_;
};

// What goes from `stage` to the next one.
std::optional<TensorSpec> Between(int stage, int stages) {
  if (stage < 0 || stage == stages - 1) return std::nullopt;
  return TensorSpec{{static_cast<std::size_t>(stage) + 2, kColumns}, tuttiFloat32};
}

PipelineParallel PipelineOf(ProcessGroup& group) {
  return {group, Between(group.rank() - 1, group.size()), Between(group.rank(), group.size())};
}

void ExpectGradientsOfUnsplit(const Stage& step, int stage, int stages, int microbatches) {
  const auto expected = Unsplit(stages, microbatches)[static_cast<std::size_t>(stage)];
  EXPECT_NE(expected.grad_a, 0);
  EXPECT_EQ(step.layer().grad_a, expected.grad_a) << microbatches << " microbatches";
  EXPECT_EQ(step.layer().grad_b, expected.grad_b) << microbatches << " microbatches";
}

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

// On a stream of the host a step waits for what the stream does before it looks at its tensors.
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
    EXPECT_TRUE(tutti::testing::Ok(tuttiStreamSynchronize(stream)));
    EXPECT_TRUE(tutti::testing::Ok(tuttiStreamDestroy(stream)));
    ExpectGradientsOfUnsplit(step, self.rank(), 3, 6);
    self.Meet();
  });
}

// The same computation on the host, between copies from and to the GPU.
class DeviceStage : public PipelineStep {
 public:
  DeviceStage(int stage, const Gpu& gpu, tuttiStream_t stream) : stage_(stage), gpu_(gpu), stream_(stream) {}
  const Stage& stage() const { return stage_; }

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    Staged x(gpu_, input), y(gpu_, output);
    Fetch({&x});
    stage_.forward(microbatch, x.host(), y.host());
    y.Put();
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    Staged x(gpu_, input), grad_y(gpu_, grad_output), grad_x(gpu_, grad_input);
    Fetch({&x, &grad_y});
    stage_.backward(microbatch, x.host(), grad_y.host(), grad_x.host());
    grad_x.Put();
  }

 private:
  class Staged {
   public:
    Staged(const Gpu& gpu, const Tensor* device) : gpu_(gpu), device_(device) {
      if (device == nullptr) return;
      values_.resize(device->count());
      host_ = Tensor(values_.data(), device->shape);
    }
    const Tensor* host() const { return device_ != nullptr ? &host_ : nullptr; }
    void Get() {
      if (device_ != nullptr) gpu_.Get(values_.data(), static_cast<const std::byte*>(device_->data), device_->bytes());
    }
    void Put() const {
      if (device_ != nullptr) gpu_.Put(static_cast<std::byte*>(device_->data), values_.data(), device_->bytes());
    }

   private:
    const Gpu& gpu_;
    const Tensor* device_;
    Values values_;
    Tensor host_;
  };

  void Fetch(std::initializer_list<Staged*> tensors) const {
    EXPECT_TRUE(tutti::testing::Ok(gpu_.Synchronize(stream_)));
    for (auto* tensor : tensors) tensor->Get();
  }

  Stage stage_;
  const Gpu& gpu_;
  tuttiStream_t stream_;
};

TEST(PipelineDevice, GradientsAreTheUnsplitModels) {
  const auto outcome = RunRanks(1, [](Rank& self) { self.Note(Gpu::Exists() ? "there" : "none"); });
  if (outcome.front().notes != std::vector<std::string>{"there"}) {
    GTEST_SKIP() << "there is neither a GPU nor its stand-in";
  }
  RunRanks(3, [](Rank& self) {
    const Gpu gpu(self.rank());
    const auto stream = gpu.NewStream();
    {
      const auto comm = self.Join();
      int device = TUTTI_DEVICE_NONE;
      EXPECT_TRUE(tutti::testing::Ok(tuttiCommCuDevice(comm, &device)));
      EXPECT_EQ(device, gpu.ordinal());
      ProcessGroup group(comm);
      auto pipeline = PipelineOf(group);
      for (const int microbatches : {2, 6}) {
        DeviceStage step(self.rank(), gpu, stream);
        pipeline.run(one_forward_one_backward(3, microbatches), step, stream);
        EXPECT_TRUE(tutti::testing::Ok(gpu.Synchronize(stream)));
        ExpectGradientsOfUnsplit(step.stage(), self.rank(), 3, microbatches);
      }
      self.Meet();
    }
    gpu.DestroyStream(stream);
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
    // Inputs in flight and the gradient by the input, but on the first stage; output and its gradient, but on the last.
    const std::array<int, 3> expected{2, 2 + 1 + 2, 1 + 1};
    EXPECT_EQ(*allocations, expected[static_cast<std::size_t>(self.rank())]);
    self.Meet();
  });
}

// Never called.
class NoStep : public PipelineStep {
 public:
  void forward(int, const Tensor*, const Tensor*) override { ADD_FAILURE() << "a forward was begun"; }
  void backward(int, const Tensor*, const Tensor*, const Tensor*) override { ADD_FAILURE() << "a backward was begun"; }
};

TEST(Pipeline, EveryRankIsToldWhatDoesNotFit) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const int stage = self.rank();
    NoStep step;
    const TensorSpec six{{2, 3}, tuttiFloat32}, eight{{2, 4}, tuttiFloat32};
    const auto here = [&](bool is_there, const TensorSpec& spec) {
      return is_there ? std::optional(spec) : std::nullopt;
    };
    PipelineParallel shapes(group, here(stage > 0, stage == 2 ? eight : six), here(stage < 2, six));
    EXPECT_TRUE(Throws([&] { shapes.run(gpipe(3, 4), step); }, tuttiInvalidUsage,
                       {"stage 1 gives float32 [2, 3]", "stage 2 takes float32 [2, 4]"}));
    PipelineParallel types(group, here(stage > 0, six),
                           here(stage < 2, {{2, 3}, stage == 0 ? tuttiInt32 : tuttiFloat}));
    EXPECT_TRUE(Throws([&] { types.run(gpipe(3, 4), step); }, tuttiInvalidUsage,
                       {"stage 0 gives int32 [2, 3]", "stage 1 takes float32 [2, 3]"}));
    auto pipeline = PipelineOf(group);
    EXPECT_TRUE(Throws([&] { pipeline.run(gpipe(3, stage == 1 ? 8 : 4), step); }, tuttiInvalidUsage,
                       {"microbatches is 4 on stage 0, but 8 on stage 1"}));
    EXPECT_TRUE(Throws([&] { pipeline.run(get_schedule(stage == 2 ? "1F1B" : "GPipe", 3, 4), step); },
                       tuttiInvalidUsage, {"\"GPipe\" on stage 0, but \"1F1B\" on stage 2"}));
    EXPECT_TRUE(Throws([&] { pipeline.run(gpipe(4, 4), step); }, tuttiInvalidArgument,
                       {"stage 0", "4 stages", "group 3 ranks"}));
    auto broken = gpipe(3, 4);
    broken.actions[1].pop_back();
    EXPECT_TRUE(Throws([&] { pipeline.run(broken, step); }, tuttiInvalidArgument,
                       {"stage 1 never does the backward of microbatch 3"}));
    // Trouble of one stage alone is everybody's answer, too.
    PipelineParallel poor(group, Between(stage - 1, 3), Between(stage, 3), [&](std::size_t bytes) {
      if (stage == 1) throw std::runtime_error("no memory for " + std::to_string(bytes) + " bytes");
      return allocate_memory(bytes);
    });
    EXPECT_TRUE(
        Throws([&] { poor.run(gpipe(3, 4), step); }, tuttiInvalidArgument, {"stage 1: no memory for 36 bytes"}));
    PipelineParallel deep(group, Between(stage - 1, 3),
                          stage == 1 ? std::optional(TensorSpec{Shape(9, 1), tuttiFloat32}) : Between(stage, 3));
    EXPECT_TRUE(
        Throws([&] { deep.run(gpipe(3, 4), step); }, tuttiInvalidArgument, {"stage 1", "9 dimensions", "at most 8"}));
    // The group has not suffered.
    Stage good(stage);
    pipeline.run(gpipe(3, 4), good);
    ExpectGradientsOfUnsplit(good, stage, 3, 4);
    self.Meet();
  });
}

// To which something happens in one of its microbatches.
class Misfortune : public Stage {
 public:
  using Stage::Stage;
  std::function<void(int microbatch)> in_forward = [](int) {};
  std::function<void(int microbatch)> in_backward = [](int) {};

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    in_forward(microbatch);
    Stage::forward(microbatch, input, output);
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    in_backward(microbatch);
    Stage::backward(microbatch, input, grad_output, grad_input);
  }
};

void ThrowIn(int microbatch) {
  if (microbatch == 2) throw std::domain_error("a loss of NaN");
}

// Stage 1 of 3 throws in a pass of its third microbatch; the others are told within so many batches.
void RunWithStage1Throwing(std::function<void(int)> Misfortune::*in, const std::string& name,
                           const std::vector<std::string>& words, int batches) {
  RunRanks(3, [&](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    auto pipeline = PipelineOf(group);
    Misfortune step(self.rank());
    if (self.rank() == 1) step.*in = ThrowIn;
    const auto run = [&] {
      for (int batch = 0; batch < batches; ++batch) pipeline.run(get_schedule(name, 3, 4), step);
    };
    if (self.rank() == 1) {
      EXPECT_THROW(run(), std::domain_error);
    } else {
      EXPECT_TRUE(Throws(run, tuttiRemoteError, words));
    }
    self.Meet();
  });
}

TEST(Pipeline, AStageThatThrowsEndsTheBatchOnAll) {
  const std::vector<std::string> words{"pipeline stage", "of 3 was stopped before the", "ranks are stages", "rank 1",
                                       "revoked"};
  for (const char* name : {"GPipe", "1F1B"}) RunWithStage1Throwing(&Misfortune::in_forward, name, words, 1);
}

// The last stage needs nothing more when stage 1 fails.
TEST(Pipeline, AStageThatWasDoneIsToldWhenItComesBack) {
  RunWithStage1Throwing(&Misfortune::in_backward, "GPipe", {"pipeline stage", "rank 1", "revoked"}, 2);
}

TEST(Pipeline, AStageThatDiesIsNamed) {
  RunRanks(
      4,
      [](Rank& self) {
        const auto comm = self.Join();
        ProcessGroup group(comm);
        auto pipeline = PipelineOf(group);
        Misfortune step(self.rank());
        step.in_backward = [&](int microbatch) {
          if (self.rank() == 2 && microbatch == 1) std::raise(SIGKILL);
        };
        EXPECT_TRUE(Throws([&] { pipeline.run(one_forward_one_backward(4, 8), step); }, tuttiRemoteError,
                           {"pipeline stage " + std::to_string(self.rank()) + " of 4", "rank 2"}));
      },
      RunOptions{.may_die = {2}});
}

}  // namespace
}  // namespace tutti::parallel
