// Trains the model, split as the configuration says, and keeps the losses of all steps.
//
// Thread-safety: one thread at a time.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "model_chunk.h"
#include "text.h"

namespace train_lm {

class Trainer {
 public:
  // Throws tutti::parallel::Error naming the quantity and both values if something does not divide.
  Trainer(const TrainConfig& config, ParallelState& state, Math& math);

  // One step; returns the mean loss of its tokens, the same on every rank.
  double step();

  // See Mixture; the total so far.
  std::uint64_t remote_choices() const;
  // For the last step: this rank's buckets of gradients, and those of them that were sent before the pass ended.
  std::size_t buckets() const { return parameters_.buckets(); }
  std::size_t buckets_sent_during_backward() const { return buckets_sent_during_backward_; }
  // This stage's actions in a step.
  const std::vector<tutti::parallel::PipelineAction>& actions() const {
    return schedule_.actions[static_cast<std::size_t>(state_.get_pipeline_model_parallel_rank())];
  }
  const Parameters& parameters() const { return parameters_; }
  // The ranges of this stage's chunks of the model.
  const std::vector<StageRange>& ranges() const { return ranges_; }

 private:
  tutti::parallel::MoEAlltoAllTokenDispatcher* MakeDispatcher();
  Loaded Load(int microbatch);
  std::deque<ModelChunk> MakeChunks();
  std::vector<tutti::parallel::PipelineEnds> Ends() const;
  double MeanLoss();

  const TrainConfig& config_;
  ParallelState& state_;
  Math& math_;
  std::vector<StageRange> ranges_;  // of this stage's chunks
  Text text_;
  Parameters parameters_;
  tutti::parallel::ContextParallelAttention attention_;
  std::optional<tutti::parallel::MoEAlltoAllTokenDispatcher> dispatcher_;
  Surroundings surroundings_;
  std::deque<ModelChunk> chunks_;
  tutti::parallel::PipelineParallel pipeline_;
  tutti::parallel::PipelineSchedule schedule_;
  std::size_t step_ = 0;
  std::size_t buckets_sent_during_backward_ = 0;
};

}  // namespace train_lm
