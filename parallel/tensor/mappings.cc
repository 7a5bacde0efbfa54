#include "tutti/parallel/mappings.h"

namespace tutti::parallel {
namespace {

// Requires that `whole` is `size` times `part` in one dimension, and equal in the others.
void RequireWhole(const char* what, const TensorParallel& tp, const Tensor& whole, const Tensor& part, bool last) {
  Shape expected = part.shape;
  if (!expected.empty()) (last ? expected.back() : expected.front()) *= tp.size();
  require_shape(what, whole, expected);
  require_type(what, whole, part.dtype);
}

}  // namespace

void all_reduce(const TensorParallel& tp, const Tensor& tensor) {
  tp.group.all_reduce(tensor, tensor, tuttiSum, tp.compute.stream());
}

void gather_last_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output) {
  RequireWhole("the gathered tensor", tp, output, input, true);
  tp.group.all_gather_tensor(input, output, input.shape.size() - 1, tp.compute.stream());
}

void split_last_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output) {
  RequireWhole("the tensor to split", tp, input, output, true);
  tp.compute.copy_columns(input, tp.rank() * output.columns(), output, 0, output.columns());
}

void gather_first_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output) {
  RequireWhole("the gathered tensor", tp, output, input, false);
  tp.group.all_gather(input, output, tp.compute.stream());
}

void split_first_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output) {
  RequireWhole("the tensor to split", tp, input, output, false);
  tp.compute.copy_columns(input.chunk(tp.rank(), tp.size()), 0, output, 0, output.columns());
}

void reduce_scatter_first_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output) {
  RequireWhole("the tensor to reduce and scatter", tp, input, output, false);
  tp.group.reduce_scatter(input, output, tuttiSum, tp.compute.stream());
}

Shape part_of_sequence(const TensorParallel& tp, Shape whole) {
  require_divisible("the sequence's length", whole.front(), "tensor_model_parallel_size", tp.size());
  whole.front() /= tp.size();
  return whole;
}

}  // namespace tutti::parallel
