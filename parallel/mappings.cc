#include "tutti/parallel/mappings.h"

namespace tutti::parallel {
namespace {

// `whole` is `size` times `part` in one dimension, and like it in the others.
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

// An all-gather puts ranks' matrices one below the other; their columns belong side by side. The host's puts them
// there.
void gather_last_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output) {
  RequireWhole("the gathered tensor", tp, output, input, true);
  if (tp.compute.stream() == nullptr) {
    return tp.group.all_gather_tensor(input, output, input.shape.size() - 1);
  }
  const Buffer all(tp.compute, {tp.size() * input.rows(), input.columns()}, input.dtype);
  tp.group.all_gather(input, all, tp.compute.stream());
  for (std::size_t rank = 0; rank < tp.size(); ++rank) {
    tp.compute.copy_columns(all.tensor().chunk(rank, tp.size()), 0, output, rank * input.columns(), input.columns());
  }
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
