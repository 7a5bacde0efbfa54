#include "block.h"

#include "tutti/parallel/mixed_heads.h"

namespace train_lm {

Attention::Attention(const Surroundings& surroundings, const std::string& name)
    : in_(surroundings),
      norm_(surroundings, name + ".norm1"),
      qkv_(in_.tp, in_.model.hidden, in_.model.mixed_columns(), in_.parameters.linear(name + ".qkv"),
           {.sequence_parallel = in_.sequence_parallel}),
      out_(in_.tp, in_.model.hidden, in_.model.hidden, in_.parameters.linear(name + ".out"),
           {.sequence_parallel = in_.sequence_parallel}) {}

// Splits whole heads: each rank has some of them.
Tensor Attention::heads(const Tensor& tensor, bool mixed) const {
  const std::size_t heads = in_.model.heads / in_.tp.size(), keys = in_.model.heads_of_keys() / in_.tp.size();
  const std::size_t width = in_.model.head_width();
  if (!mixed) return {tensor.floats(), {tensor.shape[0], in_.batch, heads, width}};
  return {tensor.floats(), tutti::parallel::mixed_shape(tensor.shape[0], in_.batch, heads, keys, width)};
}

Attention::Saved Attention::forward(const Tensor& x, const Tensor& y) {
  Saved saved{norm_.forward(x),
              in_.make(in_.part_of_columns(in_.model.mixed_columns())),
              in_.make(in_.part_of_columns(in_.model.hidden)),
              {}};
  qkv_.forward(saved.norm.y, saved.qkv);
  saved.attention = in_.attention.forward(heads(saved.qkv, true), heads(saved.attended, false));
  out_.forward(saved.attended, y);
  in_.math.add(x, y, y);
  return saved;
}

void Attention::backward(const Tensor& x, const Saved& saved, const Tensor& grad) {
  const Buffer grad_attended = in_.make(saved.attended.tensor().shape), grad_qkv = in_.make(saved.qkv.tensor().shape);
  Buffer grad_norm = in_.make(x.shape);
  out_.backward(saved.attended, grad, grad_attended);
  in_.attention.backward(heads(saved.qkv, true), heads(saved.attended, false), saved.attention,
                         heads(grad_attended, false), heads(grad_qkv, true));
  qkv_.backward(saved.norm.y, grad_qkv, grad_norm);
  norm_.backward(x, saved.norm, std::move(grad_norm), grad);
}

Perceptron::Perceptron(const Surroundings& surroundings, const std::string& name)
    : in_(surroundings),
      norm_(surroundings, name + ".norm2"),
      up_(in_.tp, in_.model.hidden, in_.model.feed_forward, in_.parameters.linear(name + ".up"),
          {.sequence_parallel = in_.sequence_parallel}),
      down_(in_.tp, in_.model.feed_forward, in_.model.hidden, in_.parameters.linear(name + ".down"),
            {.sequence_parallel = in_.sequence_parallel}) {}

Perceptron::Saved Perceptron::forward(const Tensor& x, const Tensor& y) {
  const Shape inner = in_.part_of_columns(in_.model.feed_forward);
  Saved saved{norm_.forward(x), in_.make(inner), in_.make(inner)};
  up_.forward(saved.norm.y, saved.up);
  in_.math.gelu(saved.up, saved.active);
  down_.forward(saved.active, y);
  in_.math.add(x, y, y);
  return saved;
}

void Perceptron::backward(const Tensor& x, const Saved& saved, const Tensor& grad) {
  const Buffer grad_inner = in_.make(saved.up.tensor().shape);
  Buffer grad_norm = in_.make(x.shape);
  down_.backward(saved.active, grad, grad_inner);
  in_.math.gelu_backward(saved.up, grad_inner, grad_inner);
  up_.backward(saved.norm.y, grad_inner, grad_norm);
  norm_.backward(x, saved.norm, std::move(grad_norm), grad);
}

Block::Saved Block::forward(const Tensor& x, const Tensor& y) {
  Saved saved{{}, in_.make(x.shape), {}, {}};
  in_.parameters.in_forward(name_, [&] {
    saved.attention = Attention(in_, name_).forward(x, saved.between);
    if (in_.dispatcher == nullptr) {
      saved.perceptron = Perceptron(in_, name_).forward(saved.between, y);
    } else {
      saved.mixture = Mixture(in_, name_).route(saved.between);
    }
  });
  if (saved.mixture) Mixture(in_, name_).forward(saved.between, *saved.mixture, y);
  return saved;
}

void Block::backward(const Tensor& x, const Saved& saved, const Tensor& grad) {
  Mixture::Gradients routed;
  if (saved.mixture) routed = Mixture(in_, name_).backward_experts(saved.between, *saved.mixture, grad);
  in_.parameters.in_backward(name_, [&] {
    if (saved.perceptron) Perceptron(in_, name_).backward(saved.between, *saved.perceptron, grad);
    if (saved.mixture) {
      Mixture(in_, name_).backward_routing(saved.between, *saved.mixture, std::move(routed), grad);
    }
    Attention(in_, name_).backward(x, saved.attention, grad);
  });
}

}  // namespace train_lm
