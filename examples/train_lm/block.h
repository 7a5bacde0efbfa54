// A transformer block, split over a tensor-parallel group: norm, attention, norm, multilayer perceptron, each pair with
// a residual around it (Vaswani et al. 2017; the norms first, as in GPT-2). Between a row-parallel layer and the next
// column-parallel one, tensors lie [sequence, batch, hidden] - with sequence parallelism this rank's part of the
// sequence.
//
// Thread-safety: one thread at a time.
#pragma once

#include <optional>
#include <string>

#include "parameters.h"

namespace train_lm {

using tutti::parallel::TensorParallel;

// What a block's layers share.
struct Surroundings {
  const ModelConfig& model;
  Math& math;
  Parameters& parameters;
  TensorParallel tp;
  bool sequence_parallel;
  std::size_t batch;  // samples of a micro-batch

  // [sequence (or this rank's part), batch, columns].
  Shape rows_of_sequence(std::size_t columns) const {
    return {sequence_parallel ? model.sequence / tp.size() : model.sequence, batch, columns};
  }
  // [sequence, batch, this rank's part of columns].
  Shape part_of_columns(std::size_t columns) const { return {model.sequence, batch, columns / tp.size()}; }
  Buffer make(Shape shape) const { return {math.compute(), std::move(shape)}; }
};

class LayerNorm {
 public:
  LayerNorm(const Surroundings& surroundings, std::string name) : in_(surroundings), name_(std::move(name)) {}

  struct Saved {
    Buffer y, statistics;
  };
  Saved forward(const Tensor& x) const;
  // Adds to grad_x.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad_y, const Tensor& grad_x) const;

 private:
  const Surroundings& in_;
  std::string name_;
};

// y = x + out(attention(qkv(norm(x)))).
class Attention {
 public:
  Attention(const Surroundings& surroundings, const std::string& name);

  struct Saved {
    LayerNorm::Saved norm;
    Buffer qkv, probabilities, attended;
  };
  Saved forward(const Tensor& x, const Tensor& y);
  // grad: of y, and then of x.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad);

 private:
  AttentionShape shape() const;

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

class Block {
 public:
  Block(const Surroundings& surroundings, const std::string& name);

  struct Saved {
    Attention::Saved attention;
    Buffer between;
    Perceptron::Saved perceptron;
  };
  Saved forward(const Tensor& x, const Tensor& y);
  // grad: of y, and then of x. The parameters' gradients are added to, and are ready afterwards.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad);

 private:
  const Surroundings& in_;
  std::string name_;
  Attention attention_;
  Perceptron perceptron_;
};

}  // namespace train_lm
