// A mixture of experts that replaces a block's multilayer perceptron: y = x + sum over a token's experts of weight *
// down(gelu(up(norm(x)))). The expert-parallel group splits the experts, as whole experts. With tensor parallelism the
// sequence is split as well, so that no token is sent twice.
//
// Norm and router belong to the block's unit; the experts are a separate unit. Forward uses them in that order,
// backward in reverse.
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
    // The number of times that this rank's tokens chose experts of other ranks.
    std::uint64_t remote_choices = 0;
  };
  // Inside the block's unit.
  Saved route(const Tensor& x) const;
  void forward(const Tensor& x, Saved& saved, const Tensor& y);

  struct Gradients {
    Buffer tokens, logits;
  };
  // grad: the gradient of y.
  Gradients backward_experts(const Tensor& x, const Saved& saved, const Tensor& grad);
  // Inside the block's unit. grad: the gradient of y, replaced by that of x.
  void backward_routing(const Tensor& x, const Saved& saved, Gradients gradients, const Tensor& grad) const;

 private:
  struct Expert {
    tutti::parallel::LinearParameters up, down;
  };

  // This rank's experts. Call it inside their unit.
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
