// Trains the model, split as the configuration says, and has the losses of all steps.
//
// Thread-safety: one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model.h"
#include "text.h"
#include "tutti/parallel/pipeline.h"

namespace train_lm {

class Trainer final : private tutti::parallel::PipelineStep {
 public:
  // Throws tutti::parallel::Error naming the quantity and both values where something does not divide.
  Trainer(const TrainConfig& config, ParallelState& state, Math& math);

  // One step; returns the mean loss of its tokens, the same on every rank.
  double step();

  // See Mixture; so far.
  std::uint64_t remote_choices() const { return model_.remote_choices(); }
  // Of the last step: this rank's buckets of gradients, and those of them that were sent before the pass ended.
  std::size_t buckets() const { return parameters_.buckets(); }
  std::size_t buckets_sent_during_backward() const { return buckets_sent_during_backward_; }
  const Parameters& parameters() const { return parameters_; }
  const StageRange& range() const { return range_; }

 private:
  void forward(int microbatch, const Tensor* input, const Tensor* output) override;
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override;
  tutti::parallel::MoEAlltoAllTokenDispatcher* MakeDispatcher();
  Samples Load(int microbatch);
  double MeanLoss();

  const TrainConfig& config_;
  ParallelState& state_;
  Math& math_;
  StageRange range_;
  Text text_;
  Parameters parameters_;
  tutti::parallel::ContextParallelAttention attention_;
  std::optional<tutti::parallel::MoEAlltoAllTokenDispatcher> dispatcher_;
  Surroundings surroundings_;
  Model model_;
  tutti::parallel::PipelineParallel pipeline_;
  tutti::parallel::PipelineSchedule schedule_;

  struct Loaded {
    Buffer ids, targets;
  };
  std::map<int, Loaded> samples_;  // by micro-batch
  std::size_t step_ = 0;
  std::size_t backwards_ = 0;  // of this step
  std::size_t buckets_sent_during_backward_ = 0;
};

}  // namespace train_lm
