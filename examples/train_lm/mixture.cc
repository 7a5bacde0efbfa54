#include "mixture.h"

#include <fmt/format.h>

#include <functional>
#include <memory>

namespace train_lm {
namespace {

using tutti::parallel::LinearParameters;
using tutti::parallel::Transposed;

// Calls `call` for each expert with rows; an expert's rows are contiguous and follow the previous expert's.
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

void BackwardInput(Compute& compute, const LinearParameters& linear, const Tensor& grad_y, const Tensor& grad_x) {
  compute.matmul(Transposed::no, grad_y, Transposed::no, linear.weight, grad_x, false);
}

void BackwardWeight(Compute& compute, const LinearParameters& linear, const Tensor& x, const Tensor& grad_y) {
  compute.matmul(Transposed::yes, grad_y, Transposed::no, x, linear.grad_weight, true);
  compute.add_rows(grad_y, linear.grad_bias);
}

// Copies a tensor whose memory is reused before its deferred gradients are computed.
std::shared_ptr<Buffer> CopyOf(Compute& compute, const Tensor& tensor) {
  auto copy = std::make_shared<Buffer>(compute, tensor.shape);
  compute.copy_columns(tensor, 0, *copy, 0, tensor.columns());
  return copy;
}

}  // namespace

Mixture::Mixture(const Surroundings& surroundings, const std::string& name)
    : in_(surroundings),
      name_(name),
      norm_(surroundings, name + ".norm2"),
      layer_(in_.experts, in_.math.compute(), {.num_experts = in_.model.experts, .topk = in_.model.top_k},
             *in_.dispatcher) {}

std::vector<Mixture::Expert> Mixture::Experts() const {
  std::vector<Expert> experts;
  const std::size_t mine = in_.model.experts / static_cast<std::size_t>(in_.experts.size());
  for (std::size_t expert = 0; expert < mine; ++expert) {
    const auto which = static_cast<std::size_t>(in_.experts.rank()) * mine + expert;
    const auto prefix = fmt::format("{}.expert{}", name_, which);
    experts.push_back({in_.parameters.linear(prefix + ".up"), in_.parameters.linear(prefix + ".down")});
  }
  return experts;
}

Mixture::Saved Mixture::route(const Tensor& x) const {
  Saved saved;
  saved.norm = norm_.forward(x);
  const Tensor tokens(saved.norm.y.tensor().floats(), {x.rows(), x.columns()});
  saved.logits = in_.make({x.rows(), in_.model.experts});
  in_.math.compute().matmul(Transposed::no, tokens, Transposed::yes, in_.parameters.data(name_ + ".router"),
                            saved.logits, false);
  return saved;
}

void Mixture::forward(const Tensor& x, Saved& saved, const Tensor& y) {
  auto& compute = in_.math.compute();
  const Tensor tokens(saved.norm.y.tensor().floats(), {x.rows(), x.columns()});
  const auto compute_rows = [&](const Tensor& input, const std::vector<std::size_t>& rows, const Tensor& output) {
    saved.up = in_.make({input.rows(), in_.model.feed_forward});
    saved.active = in_.make({input.rows(), in_.model.feed_forward});
    in_.parameters.in_forward(name_ + ".experts", [&] {
      const auto experts = Experts();
      ForEachExpert(rows, [&](std::size_t expert, std::size_t first, std::size_t count) {
        const Tensor up = Rows(saved.up, first, count), active = Rows(saved.active, first, count);
        Forward(compute, experts[expert].up, Rows(input, first, count), up);
        in_.math.gelu(up, active);
        Forward(compute, experts[expert].down, active, Rows(output, first, count));
      });
    });
  };
  saved.state = layer_.forward(tokens, saved.logits, compute_rows, Tensor(y.floats(), tokens.shape));
  in_.math.add(x, y, y);
  const auto& plan = saved.state.handle.plan;
  saved.remote_choices = plan.sent - plan.send_counts[static_cast<std::size_t>(in_.experts.rank())];
}

void Mixture::BackwardRows(const Saved& saved, const Tensor& grad_output, const std::vector<std::size_t>& rows,
                           const Tensor& grad_input) const {
  auto& compute = in_.math.compute();
  const auto experts = Experts();
  const auto grad_inner = std::make_shared<Buffer>(in_.make({grad_output.rows(), in_.model.feed_forward}));
  ForEachExpert(rows, [&](std::size_t expert, std::size_t first, std::size_t count) {
    const Tensor inner = Rows(*grad_inner, first, count);
    BackwardInput(compute, experts[expert].down, Rows(grad_output, first, count), inner);
    in_.math.gelu_backward(Rows(saved.up, first, count), inner, inner);
    BackwardInput(compute, experts[expert].up, inner, Rows(grad_input, first, count));
  });
  auto& weight_grads = in_.parameters.weight_grads();
  const auto kept = weight_grads.deferring() ? CopyOf(compute, grad_output) : nullptr;
  weight_grads.call([&compute, experts, rows, grad_inner, kept, grad_output = kept ? kept->tensor() : grad_output,
                     input = saved.state.expert_input.tensor(), active = saved.active.tensor()] {
    ForEachExpert(rows, [&](std::size_t expert, std::size_t first, std::size_t count) {
      BackwardWeight(compute, experts[expert].down, Rows(active, first, count), Rows(grad_output, first, count));
      BackwardWeight(compute, experts[expert].up, Rows(input, first, count), Rows(*grad_inner, first, count));
    });
  });
}

Mixture::Gradients Mixture::backward_experts(const Tensor& x, const Saved& saved, const Tensor& grad) {
  const Shape shape{x.rows(), x.columns()};
  Gradients gradients{in_.make(shape), in_.make({x.rows(), in_.model.experts})};
  const auto compute_rows = [&](const Tensor& grad_output, const std::vector<std::size_t>& rows,
                                const Tensor& grad_input) {
    in_.parameters.in_backward(name_ + ".experts", [&] { BackwardRows(saved, grad_output, rows, grad_input); });
  };
  layer_.backward(saved.state, Tensor(grad.floats(), shape), compute_rows, gradients.tokens, gradients.logits);
  return gradients;
}

void Mixture::backward_routing(const Tensor& x, const Saved& saved, Gradients gradients, const Tensor& grad) const {
  auto& compute = in_.math.compute();
  const auto logits = std::make_shared<Buffer>(std::move(gradients.logits));
  compute.matmul(Transposed::no, *logits, Transposed::no, in_.parameters.data(name_ + ".router"), gradients.tokens,
                 true);
  const Tensor tokens(saved.norm.y.tensor().floats(), gradients.tokens.tensor().shape);
  in_.parameters.weight_grads().call([&compute, logits, tokens, grad_router = in_.parameters.grad(name_ + ".router")] {
    compute.matmul(Transposed::yes, *logits, Transposed::no, tokens, grad_router, true);
  });
  norm_.backward(x, saved.norm, std::move(gradients.tokens), grad);
}

}  // namespace train_lm
