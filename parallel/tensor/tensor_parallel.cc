#include "tutti/parallel/tensor_parallel.h"

#include <memory>
#include <optional>
#include <utility>

#include "parallel/compute/joining.h"

namespace tutti::parallel {
namespace {

Shape With(Shape shape, std::size_t columns) {
  shape.back() = columns;
  return shape;
}

Shape TimesFirst(Shape shape, std::size_t factor) {
  shape.front() *= factor;
  return shape;
}

void RequireParameters(const LinearParameters& parameters, const Shape& weight, std::size_t bias) {
  require_shape("the weight", parameters.weight, weight);
  require_shape("the weight's gradient", parameters.grad_weight, weight);
  if (parameters.bias.data == nullptr) return;
  require_shape("the bias", parameters.bias, {bias});
  require_shape("the bias's gradient", parameters.grad_bias, {bias});
}

void RequireOwnMemory(const Tensor& grad_input, const Tensor& input, const Tensor& grad_output) {
  require_apart("grad_input", grad_input, "the input", input);
  require_apart("grad_input", grad_input, "grad_output", grad_output);
}

// y = x w^T, and its gradients.
void Multiply(Compute& compute, const Tensor& x, const Tensor& weight, const Tensor& y) {
  compute.matmul(Transposed::no, x, Transposed::yes, weight, y, false);
}
void InputGradient(Compute& compute, const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x) {
  compute.matmul(Transposed::no, grad_y, Transposed::no, weight, grad_x, false);
}
void WeightGradient(Compute& compute, const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight) {
  compute.matmul(Transposed::yes, grad_y, Transposed::no, x, grad_weight, true);
}

// Adds the gradients of the weight and the bias, now or later. `own_grad` and `own_x` hold the memory of grad_y and x
// if it is the layer's; it is kept if they are needed later.
void ParameterGradients(Compute& compute, const LinearParameters& parameters, const Tensor& grad_y,
                        std::optional<Buffer>& own_grad, const Tensor& x, std::optional<Buffer>& own_x) {
  const auto add = [&compute, parameters](const Tensor& of_output, const Tensor& input) {
    WeightGradient(compute, of_output, input, parameters.grad_weight);
    if (parameters.bias.data != nullptr) compute.add_rows(of_output, parameters.grad_bias);
  };
  if (parameters.later == nullptr || !parameters.later->deferring()) return add(grad_y, x);
  const Tensor input = x;  // before the memory is moved
  const auto kept_x = own_x ? std::make_shared<Buffer>(std::move(*own_x)) : nullptr;
  std::shared_ptr<Buffer> kept_grad;
  if (own_grad) {
    kept_grad = std::make_shared<Buffer>(std::move(*own_grad));
  } else {
    // The caller will reuse its memory.
    kept_grad = std::make_shared<Buffer>(compute, grad_y.shape, grad_y.dtype);
    compute.copy_columns(grad_y, 0, *kept_grad, 0, grad_y.columns());
  }
  parameters.later->put([add, kept_grad, kept_x, input] { add(*kept_grad, input); });
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(TensorParallel tp, std::size_t input_size, std::size_t output_size,
                                           LinearParameters parameters, ColumnParallelOptions options)
    : tp_(tp),
      input_size_(input_size),
      output_size_(output_size),
      parameters_(std::move(parameters)),
      options_(options) {
  require_divisible("output_size", output_size_, "tensor_model_parallel_size", tp_.size());
  RequireParameters(parameters_, {output_size_ / tp_.size(), input_size_}, output_size_ / tp_.size());
}

Buffer ColumnParallelLinear::Gathered(const Tensor& input) const {
  Buffer whole(tp_.compute, TimesFirst(input.shape, tp_.size()), input.dtype);
  gather_from_sequence_parallel_region(tp_, input, whole);
  return whole;
}

// The shape of this rank's part of the output, for the whole sequence.
Shape ColumnParallelLinear::OutputShape(const Tensor& input) const {
  auto shape = With(input.shape, output_size_ / tp_.size());
  return options_.sequence_parallel ? TimesFirst(std::move(shape), tp_.size()) : shape;
}

void ColumnParallelLinear::forward(const Tensor& input, const Tensor& output) {
  require_equal("the input's last dimension", input.columns(), "input_size", input_size_);
  const Shape part = OutputShape(input);
  require_shape("output", output, options_.gather_output ? With(part, output_size_) : part);
  std::optional<Buffer> whole, mine;
  if (options_.sequence_parallel) whole = Gathered(input);
  if (options_.gather_output) mine.emplace(tp_.compute, part, input.dtype);
  const Tensor& result = mine ? mine->tensor() : output;
  Multiply(tp_.compute, whole ? whole->tensor() : input, parameters_.weight, result);
  if (parameters_.bias.data != nullptr) tp_.compute.add_bias(result, parameters_.bias);
  if (mine) gather_from_tensor_model_parallel_region(tp_, result, output);
}

void ColumnParallelLinear::backward(const Tensor& input, const Tensor& grad_output, const Tensor& grad_input) {
  require_equal("the input's last dimension", input.columns(), "input_size", input_size_);
  require_shape("grad_input", grad_input, input.shape);
  const Shape part = OutputShape(input);
  require_shape("grad_output", grad_output, options_.gather_output ? With(part, output_size_) : part);
  RequireOwnMemory(grad_input, input, grad_output);
  std::optional<Buffer> whole, mine;
  if (options_.gather_output) {
    mine.emplace(tp_.compute, part, input.dtype);
    gather_from_tensor_model_parallel_region_backward(tp_, grad_output, *mine);
  }
  const Tensor& grad = mine ? mine->tensor() : grad_output;
  // Gathered again rather than kept: sequence parallelism saves the memory of a whole sequence.
  if (options_.sequence_parallel) whole = Gathered(input);
  const Tensor& seen = whole ? whole->tensor() : input;

  std::optional<Buffer> grad_seen;
  OverlappedCommunication reduction(tp_.compute, tp_.group);
  if (options_.sequence_parallel) grad_seen.emplace(tp_.compute, seen.shape, seen.dtype);
  const Tensor& partial = grad_seen ? grad_seen->tensor() : grad_input;
  InputGradient(tp_.compute, grad, parameters_.weight, partial);
  if (options_.sequence_parallel) {
    tp_.group.reduce_scatter(partial, grad_input, tuttiSum, reduction.fork());
  } else {
    tp_.group.all_reduce(partial, partial, tuttiSum, reduction.fork());
  }
  ParameterGradients(tp_.compute, parameters_, grad, mine, seen, whole);
  reduction.join();
}

RowParallelLinear::RowParallelLinear(TensorParallel tp, std::size_t input_size, std::size_t output_size,
                                     LinearParameters parameters, RowParallelOptions options)
    : tp_(tp),
      input_size_(input_size),
      output_size_(output_size),
      parameters_(std::move(parameters)),
      options_(options) {
  require_divisible("input_size", input_size_, "tensor_model_parallel_size", tp_.size());
  RequireParameters(parameters_, {output_size_, input_size_ / tp_.size()}, output_size_);
}

// The whole sequence's output, as a shape without memory.
Tensor RowParallelLinear::Check(const Tensor& input, const Tensor& output) const {
  const std::size_t columns = options_.input_is_parallel ? input_size_ / tp_.size() : input_size_;
  require_equal("the input's last dimension", input.columns(), "this rank's input size", columns);
  Tensor whole(nullptr, With(input.shape, output_size_), input.dtype);
  require_shape("output", output, options_.sequence_parallel ? part_of_sequence(tp_, whole.shape) : whole.shape);
  return whole;
}

void RowParallelLinear::forward(const Tensor& input, const Tensor& output) {
  const Tensor whole = Check(input, output);
  std::optional<Buffer> columns, partial;
  if (!options_.input_is_parallel) {
    columns.emplace(tp_.compute, With(input.shape, input_size_ / tp_.size()), input.dtype);
    scatter_to_tensor_model_parallel_region(tp_, input, *columns);
  }
  if (options_.sequence_parallel) partial.emplace(tp_.compute, whole.shape, whole.dtype);
  const Tensor& sum = partial ? partial->tensor() : output;
  Multiply(tp_.compute, columns ? columns->tensor() : input, parameters_.weight, sum);
  if (options_.sequence_parallel) {
    reduce_scatter_to_sequence_parallel_region(tp_, sum, output);
  } else {
    reduce_from_tensor_model_parallel_region(tp_, sum);
  }
  if (parameters_.bias.data != nullptr) tp_.compute.add_bias(output, parameters_.bias);
}

void RowParallelLinear::backward(const Tensor& input, const Tensor& grad_output, const Tensor& grad_input) {
  const Tensor whole = Check(input, grad_output);
  require_shape("grad_input", grad_input, input.shape);
  RequireOwnMemory(grad_input, input, grad_output);
  std::optional<Buffer> gathered, columns, grad_columns;
  if (options_.sequence_parallel) {
    gathered.emplace(tp_.compute, whole.shape, whole.dtype);
    reduce_scatter_to_sequence_parallel_region_backward(tp_, grad_output, *gathered);
  }
  const Tensor& grad = gathered ? gathered->tensor() : grad_output;
  if (!options_.input_is_parallel) {
    const Shape shape = With(input.shape, input_size_ / tp_.size());
    columns.emplace(tp_.compute, shape, input.dtype);
    grad_columns.emplace(tp_.compute, shape, input.dtype);
    scatter_to_tensor_model_parallel_region(tp_, input, *columns);
  }
  const Tensor& grad_mine = grad_columns ? grad_columns->tensor() : grad_input;
  InputGradient(tp_.compute, grad, parameters_.weight, grad_mine);
  ParameterGradients(tp_.compute, parameters_, grad, gathered, columns ? columns->tensor() : input, columns);
  if (grad_columns) scatter_to_tensor_model_parallel_region_backward(tp_, grad_mine, grad_input);
}

}  // namespace tutti::parallel
