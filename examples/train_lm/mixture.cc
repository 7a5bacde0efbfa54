#include "mixture.h"

#include <fmt/format.h>

#include <functional>

namespace train_lm {
namespace {

using tutti::parallel::LinearParameters;
using tutti::parallel::Transposed;

// The rows of each expert, which lie one behind the other.
void ForEachExpert(const std::vector<std::size_t>& rows,
                   const std::function<void(std::size_t expert, std::size_t first, std::size_t count)>& call) {
  std::size_t first = 0;
  for (std::size_t expert = 0; expert < rows.size(); ++expert) {
    if (rows[expert] > 0) call(expert, first, rows[expert]);
    first += rows[expert];
  }
}

Tensor Rows(const Tensor& matrix, std::size_t first, std::size_t count) {
  return {matrix.floats() + first * matrix.columns(), {count, matrix.columns()}};
}

void Forward(Compute& compute, const LinearParameters& linear, const Tensor& x, const Tensor& y) {
  compute.matmul(Transposed::no, x, Transposed::yes, linear.weight, y, false);
  compute.add_bias(y, linear.bias);
}

void Backward(Compute& compute, const LinearParameters& linear, const Tensor& x, const Tensor& grad_y,
              const Tensor& grad_x) {
  compute.matmul(Transposed::yes, grad_y, Transposed::no, x, linear.grad_weight, true);
  compute.add_rows(grad_y, linear.grad_bias);
  compute.matmul(Transposed::no, grad_y, Transposed::no, linear.weight, grad_x, false);
}

}  // namespace

Mixture::Mixture(const Surroundings& surroundings, const std::string& name)
    : in_(surroundings),
      norm_(surroundings, name + ".norm2"),
      router_(in_.parameters.data(name + ".router")),
      grad_router_(in_.parameters.grad(name + ".router")),
      layer_(in_.experts, in_.math.compute(), {.num_experts = in_.model.experts, .topk = in_.model.top_k},
             *in_.dispatcher) {
  const std::size_t mine = in_.model.experts / static_cast<std::size_t>(in_.experts.size());
  for (std::size_t expert = 0; expert < mine; ++expert) {
    const auto which = static_cast<std::size_t>(in_.experts.rank()) * mine + expert;
    const auto prefix = fmt::format("{}.expert{}", name, which);
    experts_.push_back({in_.parameters.linear(prefix + ".up"), in_.parameters.linear(prefix + ".down")});
  }
}

Mixture::Saved Mixture::forward(const Tensor& x, const Tensor& y) {
  auto& compute = in_.math.compute();
  Saved saved{norm_.forward(x), {}, {}, {}, 0};
  const Tensor tokens(saved.norm.y.tensor().floats(), {x.rows(), x.columns()});
  const Buffer logits = in_.make({x.rows(), in_.model.experts});
  compute.matmul(Transposed::no, tokens, Transposed::yes, router_, logits, false);
  const auto experts = [&](const Tensor& input, const std::vector<std::size_t>& rows, const Tensor& output) {
    saved.up = in_.make({input.rows(), in_.model.feed_forward});
    saved.active = in_.make({input.rows(), in_.model.feed_forward});
    ForEachExpert(rows, [&](std::size_t expert, std::size_t first, std::size_t count) {
      const Tensor up = Rows(saved.up, first, count), active = Rows(saved.active, first, count);
      Forward(compute, experts_[expert].up, Rows(input, first, count), up);
      in_.math.gelu(up, active);
      Forward(compute, experts_[expert].down, active, Rows(output, first, count));
    });
  };
  saved.state = layer_.forward(tokens, logits, experts, Tensor(y.floats(), tokens.shape));
  in_.math.add(x, y, y);
  const auto& plan = saved.state.handle.plan;
  saved.remote_choices = plan.sent - plan.send_counts[static_cast<std::size_t>(in_.experts.rank())];
  return saved;
}

void Mixture::backward(const Tensor& x, const Saved& saved, const Tensor& grad) {
  auto& compute = in_.math.compute();
  const Shape shape{x.rows(), x.columns()};
  const Tensor tokens(saved.norm.y.tensor().floats(), shape);
  const Buffer grad_tokens = in_.make(shape), grad_logits = in_.make({x.rows(), in_.model.experts});
  const auto experts = [&](const Tensor& grad_output, const std::vector<std::size_t>& rows, const Tensor& grad_input) {
    const Buffer grad_inner = in_.make({grad_output.rows(), in_.model.feed_forward});
    ForEachExpert(rows, [&](std::size_t expert, std::size_t first, std::size_t count) {
      const Tensor inner = Rows(grad_inner, first, count);
      Backward(compute, experts_[expert].down, Rows(saved.active, first, count), Rows(grad_output, first, count),
               inner);
      in_.math.gelu_backward(Rows(saved.up, first, count), inner, inner);
      Backward(compute, experts_[expert].up, Rows(saved.state.expert_input, first, count), inner,
               Rows(grad_input, first, count));
    });
  };
  layer_.backward(saved.state, Tensor(grad.floats(), shape), experts, grad_tokens, grad_logits);
  compute.matmul(Transposed::yes, grad_logits, Transposed::no, tokens, grad_router_, true);
  compute.matmul(Transposed::no, grad_logits, Transposed::no, router_, grad_tokens, true);
  norm_.backward(x, saved.norm, grad_tokens, grad);
}

}  // namespace train_lm
