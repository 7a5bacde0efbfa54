#include "layer_norm.h"

namespace train_lm {

LayerNorm::Saved LayerNorm::forward(const Tensor& x) const {
  Saved saved{in_.make(x.shape), in_.make({x.rows(), 2})};
  in_.math.layer_norm(x, in_.parameters.data(name_ + ".gain"), in_.parameters.data(name_ + ".bias"), saved.y,
                      saved.statistics);
  return saved;
}

void LayerNorm::backward(const Tensor& x, const Saved& saved, const Tensor& grad_y, const Tensor& grad_x) const {
  in_.math.layer_norm_backward(x, in_.parameters.data(name_ + ".gain"), saved.statistics, grad_y,
                               in_.parameters.grad(name_ + ".gain"), in_.parameters.grad(name_ + ".bias"), grad_x);
}

}  // namespace train_lm
