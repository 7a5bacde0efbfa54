// One chunk of the model as a step of the pipeline: a stage has several with interleaving, otherwise one.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <map>

#include "model.h"
#include "tutti/parallel/pipeline.h"

namespace train_lm {

// One micro-batch's memory; Samples has the tensors.
struct Loaded {
  Buffer ids, targets;
};

class ModelChunk final : public tutti::parallel::SplitBackwardStep {
 public:
  ModelChunk(const Surroundings& surroundings, const StageRange& range, std::size_t microbatches,
             std::function<Loaded(int microbatch)> load);

  const Model& model() const { return model_; }
  tutti::parallel::PipelineEnds ends() const;
  // Starts a new step.
  void begin() { backwards_ = 0; }

  void forward(int microbatch, const Tensor* input, const Tensor* output) override;
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override;
  void backward_input(int microbatch, const Tensor* input, const Tensor* grad_output,
                      const Tensor* grad_input) override;
  void backward_weight(int microbatch, const Tensor* input, const Tensor* grad_output) override;

 private:
  Samples At(int microbatch) const;
  float LossScale() const;
  // Counts a backward; returns whether it is the step's last, which completes the chunk's gradients.
  bool CountsLast() { return ++backwards_ == microbatches_; }

  const Surroundings& in_;
  StageRange range_;
  std::size_t microbatches_;
  std::function<Loaded(int microbatch)> load_;
  Model model_;
  std::map<int, Loaded> samples_;  // by micro-batch
  std::size_t backwards_ = 0;      // of this step
};

}  // namespace train_lm
