// One pipeline stage's part of the language model: some blocks, with the embedding before the first and the loss after
// the last. Keeps what backward needs for every micro-batch in progress.
//
// Thread-safety: one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "block.h"
#include "tutti/parallel/vocab_parallel.h"

namespace train_lm {

// One micro-batch: ids and targets (int32), [sequence, batch].
struct Samples {
  Tensor ids, targets;
};

class Model {
 public:
  Model(const Surroundings& surroundings, const StageRange& range);

  // The shape of what stages send each other: [sequence (or a part), batch, hidden].
  Shape activation_shape() const { return in_.rows_of_sequence(in_.model.hidden); }
  // input: null on the first stage; otherwise it stays valid until backward. output: null on the last stage.
  void forward(int microbatch, const Samples& samples, const Tensor* input, const Tensor* output);
  // grad_output: null on the last stage, where every loss has the weight `loss_scale`. grad_input: null on the first.
  void backward(int microbatch, const Samples& samples, const Tensor* grad_output, const Tensor* grad_input,
                float loss_scale);
  // The same in two parts: the second one computes all parameter gradients.
  void backward_input(int microbatch, const Samples& samples, const Tensor* grad_output, const Tensor* grad_input,
                      float loss_scale);
  void backward_weight(int microbatch);
  // The sum of the losses of a micro-batch, on the last stage, after its forward.
  double loss(int microbatch) const { return losses_.at(microbatch); }
  // See Mixture; the total of all blocks so far.
  std::uint64_t remote_choices() const { return remote_choices_; }

 private:
  using VocabParallelEmbedding = tutti::parallel::VocabParallelEmbedding;
  using ColumnParallelLinear = tutti::parallel::ColumnParallelLinear;
  using VocabParallelCrossEntropy = tutti::parallel::VocabParallelCrossEntropy;
  struct Saved {
    std::vector<Tensor> inputs;  // of the blocks and the head
    std::vector<Buffer> own;     // those inputs that the pipeline does not own
    std::vector<Block::Saved> blocks;
    LayerNorm::Saved norm;
    Buffer logits;
    std::optional<VocabParallelCrossEntropy> loss;
  };

  // Kept until the second part of a backward.
  struct PutOff {
    Saved saved;
    std::vector<Parameters::PutOff> gradients;
  };

  Saved Backward(int microbatch, const Samples& samples, const Tensor* grad_output, const Tensor* grad_input,
                 float loss_scale);
  // Layers for one pass, with the parameters where they are then.
  VocabParallelEmbedding MakeEmbedding() const;
  ColumnParallelLinear MakeHead() const;
  void Embed(const Samples& samples, const Tensor& x);
  void EmbedBackward(const Samples& samples, Buffer grad);
  double Head(const Samples& samples, const Tensor& x, Saved& saved);
  void HeadBackward(const Samples& samples, const Tensor& x, Saved& saved, float loss_scale, const Tensor& grad);
  bool first() const { return range_.first_block == 0; }
  bool last() const { return range_.last_block == in_.model.layers; }

  const Surroundings& in_;
  StageRange range_;
  Buffer positions_;                 // ids of this rank's part of the sequence
  std::vector<std::string> blocks_;  // names
  LayerNorm norm_;
  std::map<int, Saved> saved_;  // by micro-batch
  std::map<int, PutOff> put_off_;
  std::map<int, double> losses_;
  std::uint64_t remote_choices_ = 0;
};

}  // namespace train_lm
