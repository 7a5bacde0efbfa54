// A block's mixture of experts in the place of its multilayer perceptron: y = x + sum over a token's experts of
// weight * down(gelu(up(norm(x)))). Experts are split over the expert-parallel group, whole ones; with tensor
// parallelism the sequence is split as well, so that no token is sent twice.
//
// Norm and router are of the block's unit, the experts a unit of their own: forward they are used one after the other,
// and backward the other way round.
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
    Buffer logits;  // of the router
    tutti::parallel::MoELayer::State state;
    Buffer up, active;  // of the rows that came to this rank's experts
    // Choices of experts of other ranks that this rank's tokens made.
    std::uint64_t remote_choices = 0;
  };
  // Inside the block's unit.
  Saved route(const Tensor& x) const;
  void forward(const Tensor& x, Saved& saved, const Tensor& y);

  struct Gradients {
    Buffer tokens, logits;
  };
  // grad: of y.
  Gradients backward_experts(const Tensor& x, const Saved& saved, const Tensor& grad);
  // Inside the block's unit. grad: of y, and then of x.
  void backward_routing(const Tensor& x, const Saved& saved, Gradients gradients, const Tensor& grad) const;

 private:
  struct Expert {
    tutti::parallel::LinearParameters up, down;
  };

  // This rank's, inside their unit.
  std::vector<Expert> Experts() const;
  // The experts' part of the layer's backward.
  void BackwardRows(const Saved& saved, const Tensor& grad_output, const std::vector<std::size_t>& rows,
                    const Tensor& grad_input) const;

  const Surroundings& in_;
  std::string name_;
  LayerNorm norm_;
  tutti::parallel::MoELayer layer_;
};

}  // namespace train_lm
