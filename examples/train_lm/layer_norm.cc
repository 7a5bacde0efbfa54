#include "layer_norm.h"

#include <memory>

namespace train_lm {

LayerNorm::Saved LayerNorm::forward(const Tensor& x) const {
  Saved saved{in_.make(x.shape), in_.make({x.rows(), 2})};
  in_.math.layer_norm(x, in_.parameters.data(name_ + ".gain"), in_.parameters.data(name_ + ".bias"), saved.y,
                      saved.statistics);
  return saved;
}

void LayerNorm::backward(const Tensor& x, const Saved& saved, Buffer grad_y, const Tensor& grad_x) const {
  const Tensor statistics = saved.statistics;
  in_.math.layer_norm_backward_input(x, in_.parameters.data(name_ + ".gain"), statistics, grad_y, grad_x);
  const Tensor grad_gain = in_.parameters.grad(name_ + ".gain"), grad_bias = in_.parameters.grad(name_ + ".bias");
  const auto kept = std::make_shared<Buffer>(std::move(grad_y));
  in_.parameters.weight_grads().call([&math = in_.math, x, statistics, kept, grad_gain, grad_bias] {
    math.layer_norm_backward_weight(x, statistics, *kept, grad_gain, grad_bias);
  });
}

}  // namespace train_lm
