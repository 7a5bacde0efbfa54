// A block's mixture of experts in the place of its multilayer perceptron: y = x + sum over a token's experts of
// weight * down(gelu(up(norm(x)))). Experts are split over the expert-parallel group, whole ones; with tensor
// parallelism the sequence is split as well, so that no token is sent twice.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "layer_norm.h"
#include "tutti/parallel/moe_layer.h"

namespace train_lm {

class Mixture {
 public:
  // REQUIRES: surroundings.dispatcher.
  Mixture(const Surroundings& surroundings, const std::string& name);

  struct Saved {
    LayerNorm::Saved norm;
    tutti::parallel::MoELayer::State state;
    Buffer up, active;  // of the rows that came to this rank's experts
    // Choices of experts of other ranks that this rank's tokens made.
    std::uint64_t remote_choices;
  };
  Saved forward(const Tensor& x, const Tensor& y);
  // grad: of y, and then of x.
  void backward(const Tensor& x, const Saved& saved, const Tensor& grad);

 private:
  struct Expert {
    tutti::parallel::LinearParameters up, down;
  };

  const Surroundings& in_;
  LayerNorm norm_;
  Tensor router_, grad_router_;
  std::vector<Expert> experts_;  // this rank's
  tutti::parallel::MoELayer layer_;
};

}  // namespace train_lm
