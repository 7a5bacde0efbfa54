// One pipeline stage's part of a transformer language model: some blocks, with the embedding before the first and the
// loss after the last. A block is norm, attention, norm, multilayer perceptron, each pair with a residual around it
// (Vaswani et al. 2017; the norms first, as in GPT-2). Positions are learned from the causal mask alone (Haviv et al.
// 2022).
//
// Its linear layers are split over a tensor-parallel group. Between a row-parallel layer and the next column-parallel
// one, tensors are [sequence, batch, hidden], or with sequence parallelism this rank's part of the sequence.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parameters.h"
#include "tutti/parallel/context_parallel.h"
#include "tutti/parallel/pipeline.h"
#include "tutti/parallel/vocab_parallel.h"

namespace train_lm {

struct ModelConfig {
  std::size_t layers = 4;
  std::size_t hidden = 64;
  std::size_t heads = 4;
  std::size_t sequence = 64;
  std::size_t feed_forward = 256;
  std::size_t vocabulary = 256;  // bytes of text
  bool sequence_parallel = false;
  std::size_t batch = 2;         // samples of a micro-batch
  std::size_t microbatches = 4;  // of a step, on each replica
};

// A micro-batch: ids and targets (int32), [sequence, batch].
struct Samples {
  Buffer ids, targets;
};

// The configuration and the objects that a stage's layers share.
struct Surroundings {
  const ModelConfig& model;
  Math& math;
  Parameters& parameters;
  tutti::parallel::TensorParallel tp;
  tutti::parallel::ContextParallelAttention& attention;

  // [sequence (or this rank's part of it), batch, hidden].
  Shape activation_shape() const {
    return {model.sequence_parallel ? model.sequence / tp.size() : model.sequence, model.batch, model.hidden};
  }
  // [sequence, batch, this rank's part of columns].
  Shape part_of_columns(std::size_t columns) const { return {model.sequence, model.batch, columns / tp.size()}; }
  Buffer make(Shape shape) const { return {math.compute(), std::move(shape)}; }
};

class Norm {
 public:
  Norm(const Surroundings& surroundings, const std::string& name);

  struct Saved {
    Buffer y, scales;
  };
  Saved forward(const Tensor& x) const;
  // Adds to grad_x.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad_y, const Tensor& grad_x) const;

 private:
  const Surroundings& in_;
  Tensor gain_, grad_gain_;
};

class Block {
 public:
  Block(const Surroundings& surroundings, const std::string& name);

  struct Saved {
    Norm::Saved norm1, norm2;
    Buffer qkv, attended, between, up, active;
    tutti::parallel::ContextParallelAttention::Saved attention;
  };
  Saved forward(const Tensor& x, const Tensor& y);
  // grad: the gradient of y, replaced by that of x.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad);

 private:
  // By head: queries, keys and values if `mixed`.
  Tensor Heads(const Tensor& tensor, bool mixed) const;

  const Surroundings& in_;
  Norm norm1_, norm2_;
  tutti::parallel::ColumnParallelLinear qkv_, up_;
  tutti::parallel::RowParallelLinear out_, down_;
};

class Model final : public tutti::parallel::PipelineStep {
 public:
  // The stage of this rank, with parameters of its own. `load` makes the samples of a micro-batch.
  Model(const ModelConfig& config, ParallelState& state, Math& math, std::function<Samples(int microbatch)> load);

  // The tensors from the previous stage and for the next one.
  std::optional<tutti::parallel::TensorSpec> input() const;
  std::optional<tutti::parallel::TensorSpec> output() const;
  void forward(int microbatch, const Tensor* input, const Tensor* output) override;
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override;

  Parameters& parameters() { return parameters_; }
  // The sum of the losses of a step's tokens so far, on the last stage; 0 from then on.
  double take_loss() { return std::exchange(loss_, 0); }

 private:
  struct Saved {
    Samples samples;
    std::vector<Tensor> inputs;  // of the blocks and the head
    std::vector<Buffer> own;     // those inputs that the pipeline does not own
    std::vector<Block::Saved> blocks;
    Norm::Saved norm;
    Buffer logits;
    std::optional<tutti::parallel::VocabParallelCrossEntropy> loss;
  };

  void Head(Saved& saved);
  void HeadBackward(Saved& saved, const Tensor& grad);
  bool first() const { return first_block_ == 0; }
  bool last() const { return last_block_ == config_.layers; }

  const ModelConfig& config_;
  std::size_t first_block_, last_block_;
  Parameters parameters_;
  tutti::parallel::ContextParallelAttention attention_;
  Surroundings in_;
  std::function<Samples(int microbatch)> load_;
  std::optional<tutti::parallel::VocabParallelEmbedding> embedding_;
  std::vector<Block> blocks_;
  std::optional<Norm> norm_;
  std::optional<tutti::parallel::ColumnParallelLinear> head_;
  std::map<int, Saved> saved_;  // by micro-batch
  std::size_t backwards_ = 0;   // of this step
  double loss_ = 0;
};

}  // namespace train_lm
