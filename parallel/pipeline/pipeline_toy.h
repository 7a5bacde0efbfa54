// Shared by the pipeline's tests: a model small enough to be sure of, as stages of a pipeline and unsplit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tutti/parallel/pipeline.h"

namespace tutti::parallel::toy {

inline constexpr std::size_t kColumns = 3;
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
  Values Backward(const Values& x, const Values& grad_y) {
    BackwardWeight(x, grad_y);
    return BackwardInput(x, grad_y);
  }
  Values BackwardInput(const Values& x, Values grad_y) const {
    Fold(x, grad_y);
    Values grad_x;
    for (std::size_t place = 0; place < x.size(); ++place) grad_x.push_back(grad_y[place] * a);
    return grad_x;
  }
  void BackwardWeight(const Values& x, Values grad_y) {
    Fold(x, grad_y);
    for (std::size_t place = 0; place < x.size(); ++place) {
      grad_a += grad_y[place] * x[place];
      grad_b += grad_y[place];
    }
  }
  // The last row is the first one's copy.
  static void Fold(const Values& x, Values& grad_y) {
    for (std::size_t column = 0; column < kColumns; ++column) grad_y[column] += grad_y[x.size() + column];
  }
};

// A microbatch: `rows` of them.
inline Values DataOf(int microbatch, std::size_t rows = 1) {
  Values x;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto k = static_cast<float>(microbatch) + static_cast<float>(row);
    x.insert(x.end(), {k, 1 - k, 2});
  }
  return x;
}

// The whole model on one rank; the loss is half the sum of the squares, so its gradient is the output itself.
inline std::vector<Layer> Unsplit(int stages, int microbatches, std::size_t rows = 1) {
  std::vector<Layer> layers;
  layers.reserve(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) layers.emplace_back(stage);
  for (int k = 0; k < microbatches; ++k) {
    std::vector<Values> activations{DataOf(k, rows)};
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
  explicit Stage(int stage, std::size_t rows = 1) : layer_(stage), rows_(rows) {}
  const Layer& layer() const { return layer_; }

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    const Values y = layer_.Forward(x(microbatch, input));
    if (output != nullptr) {
      std::copy(y.begin(), y.end(), output->floats());
    } else {
      predictions_[microbatch] = y;
    }
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    const Values grad_x = layer_.Backward(x(microbatch, input), grad_y(microbatch, grad_output));
    if (grad_input != nullptr) std::copy(grad_x.begin(), grad_x.end(), grad_input->floats());
  }

  // What a pass works on.
  Values x(int microbatch, const Tensor* input) const {
    return input != nullptr ? ValuesOf(*input) : DataOf(microbatch, rows_);
  }
  Values grad_y(int microbatch, const Tensor* grad_output) const {
    return grad_output != nullptr ? ValuesOf(*grad_output) : predictions_.at(microbatch);
  }

 private:
  static Values ValuesOf(const Tensor& tensor) { return {tensor.floats(), tensor.floats() + tensor.count()}; }

  Layer layer_;
  std::size_t rows_;  // of a microbatch, on the first stage
  std::map<int, Values> predictions_;
};

// The same stage, whose backwards come in two parts.
class SplitStage : public SplitBackwardStep {
 public:
  explicit SplitStage(int stage, std::size_t rows = 1) : whole_(stage, rows), layer_(stage) {}
  const Layer& layer() const { return layer_; }

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    whole_.forward(microbatch, input, output);
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    backward_input(microbatch, input, grad_output, grad_input);
    backward_weight(microbatch, input, grad_output);
  }
  void backward_input(int microbatch, const Tensor* input, const Tensor* grad_output,
                      const Tensor* grad_input) override {
    if (grad_input == nullptr) return;
    const Values grad_x = layer_.BackwardInput(whole_.x(microbatch, input), whole_.grad_y(microbatch, grad_output));
    std::copy(grad_x.begin(), grad_x.end(), grad_input->floats());
  }
  void backward_weight(int microbatch, const Tensor* input, const Tensor* grad_output) override {
    layer_.BackwardWeight(whole_.x(microbatch, input), whole_.grad_y(microbatch, grad_output));
  }

 private:
  Stage whole_;
  Layer layer_;
};

// The tensor that goes from `stage` to the next one.
inline std::optional<TensorSpec> Between(int stage, int stages) {
  if (stage < 0 || stage == stages - 1) return std::nullopt;
  return TensorSpec{{static_cast<std::size_t>(stage) + 2, kColumns}, tuttiFloat32};
}

inline PipelineParallel PipelineOf(ProcessGroup& group) {
  return {group, Between(group.rank() - 1, group.size()), Between(group.rank(), group.size())};
}

// The chunks of `stage`, each a stage of the toy: chunks x stages of them are the model.
inline std::vector<PipelineEnds> EndsOf(int stage, const PipelineSchedule& schedule) {
  std::vector<PipelineEnds> ends;
  const int all = schedule.stages * schedule.chunks;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int number = chunk_number(schedule, stage, chunk);
    ends.push_back({Between(number - 1, all), Between(number, all)});
  }
  return ends;
}
inline std::vector<PipelineEnds> EndsOf(int stage, int stages, int chunks) {
  return EndsOf(stage, PipelineSchedule{"", stages, 1, {}, chunks});
}

template <typename Step>
void ExpectGradientsOfUnsplit(const Step& step, int stage, int stages, int microbatches, std::size_t rows = 1) {
  const auto expected = Unsplit(stages, microbatches, rows)[static_cast<std::size_t>(stage)];
  EXPECT_NE(expected.grad_a, 0);
  EXPECT_EQ(step.layer().grad_a, expected.grad_a) << microbatches << " microbatches";
  EXPECT_EQ(step.layer().grad_b, expected.grad_b) << microbatches << " microbatches";
}

}  // namespace tutti::parallel::toy
