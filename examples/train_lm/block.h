// A transformer block, split over a tensor-parallel group: norm, attention, norm, multilayer perceptron, each pair with
// a residual around it (Vaswani et al. 2017; the norms first, as in GPT-2). Between a row-parallel layer and the next
// column-parallel one, tensors are [sequence, batch, hidden], or with sequence parallelism this rank's part of the
// sequence.
//
// Thread-safety: one thread at a time.
#pragma once

#include <optional>
#include <string>

#include "mixture.h"

namespace train_lm {

// y = x + out(attention(qkv(norm(x)))).
class Attention {
 public:
  Attention(const Surroundings& surroundings, const std::string& name);

  struct Saved {
    LayerNorm::Saved norm;
    Buffer qkv, attended;
    tutti::parallel::ContextParallelAttention::Saved attention;
  };
  Saved forward(const Tensor& x, const Tensor& y);
  // grad: the gradient of y, replaced by that of x.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad);

 private:
  // By head: queries, keys and values if `mixed`.
  Tensor heads(const Tensor& tensor, bool mixed) const;

  const Surroundings& in_;
  LayerNorm norm_;
  tutti::parallel::ColumnParallelLinear qkv_;
  tutti::parallel::RowParallelLinear out_;
};

// y = x + down(gelu(up(norm(x)))).
class Perceptron {
 public:
  Perceptron(const Surroundings& surroundings, const std::string& name);

  struct Saved {
    LayerNorm::Saved norm;
    Buffer up, active;
  };
  Saved forward(const Tensor& x, const Tensor& y);
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad);

 private:
  const Surroundings& in_;
  LayerNorm norm_;
  tutti::parallel::ColumnParallelLinear up_;
  tutti::parallel::RowParallelLinear down_;
};

// Creates its layers for each pass, because with --zero their parameters are elsewhere in the next one. Has two units:
// a mixture's experts, and the rest.
class Block {
 public:
  Block(const Surroundings& surroundings, std::string name) : in_(surroundings), name_(std::move(name)) {}

  struct Saved {
    Attention::Saved attention;
    Buffer between;
    std::optional<Perceptron::Saved> perceptron;  // one of the two
    std::optional<Mixture::Saved> mixture;
    // See Mixture.
    std::uint64_t remote_choices() const { return mixture ? mixture->remote_choices : 0; }
  };
  Saved forward(const Tensor& x, const Tensor& y);
  // grad: the gradient of y, replaced by that of x.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad);

 private:
  const Surroundings& in_;
  std::string name_;
};

}  // namespace train_lm
