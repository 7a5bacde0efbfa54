#include "tutti/parallel/vocab_parallel.h"

#include <optional>

namespace tutti::parallel {

VocabRange vocab_range(const TensorParallel& tp, std::size_t vocabulary_size) {
  require_divisible("the vocabulary's size", vocabulary_size, "tensor_model_parallel_size", tp.size());
  const std::size_t count = vocabulary_size / tp.size();
  return {static_cast<std::int32_t>(tp.rank() * count), count};
}

VocabParallelEmbedding::VocabParallelEmbedding(TensorParallel tp, std::size_t vocabulary_size,
                                               std::size_t embedding_size, Tensor weight, Tensor grad_weight,
                                               bool sequence_parallel)
    : tp_(tp),
      range_(vocab_range(tp, vocabulary_size)),
      weight_(std::move(weight)),
      grad_weight_(std::move(grad_weight)),
      sequence_parallel_(sequence_parallel) {
  require_shape("the embedding", weight_, {range_.count, embedding_size});
  require_shape("the embedding's gradient", grad_weight_, {range_.count, embedding_size});
}

// The shape of the whole sequence's output.
Shape VocabParallelEmbedding::Check(const Tensor& ids, const Tensor& output) const {
  require_type("ids", ids, tuttiInt32);
  Shape whole = ids.shape;
  whole.push_back(weight_.columns());
  require_shape("output", output, sequence_parallel_ ? part_of_sequence(tp_, whole) : whole);
  return whole;
}

void VocabParallelEmbedding::forward(const Tensor& ids, const Tensor& output) {
  const Shape shape = Check(ids, output);
  std::optional<Buffer> whole;
  if (sequence_parallel_) whole.emplace(tp_.compute, shape, weight_.dtype);
  const Tensor& sum = whole ? whole->tensor() : output;
  // A row that another rank holds is zeros here: the sum over the group is the row.
  tp_.compute.embed(ids, weight_, range_.first, sum);
  if (whole) {
    reduce_scatter_to_sequence_parallel_region(tp_, sum, output);
  } else {
    reduce_from_tensor_model_parallel_region(tp_, sum);
  }
}

void VocabParallelEmbedding::backward(const Tensor& ids, const Tensor& grad_output) {
  const Shape shape = Check(ids, grad_output);
  std::optional<Buffer> whole;
  if (sequence_parallel_) {
    whole.emplace(tp_.compute, shape, weight_.dtype);
    reduce_scatter_to_sequence_parallel_region_backward(tp_, grad_output, *whole);
  }
  tp_.compute.embed_backward(ids, whole ? whole->tensor() : grad_output, range_.first, grad_weight_);
}

VocabParallelCrossEntropy::VocabParallelCrossEntropy(TensorParallel tp, std::size_t vocabulary_size)
    : tp_(tp), range_(vocab_range(tp, vocabulary_size)) {}

void VocabParallelCrossEntropy::forward(const Tensor& logits, const Tensor& targets, const Tensor& losses) {
  const std::size_t rows = logits.rows();
  require_equal("the logits' last dimension", logits.columns(), "this rank's part of the vocabulary", range_.count);
  require_equal("the number of targets", targets.count(), "the number of rows of logits", rows);
  require_equal("the number of losses", losses.count(), "the number of rows of logits", rows);
  if (maxima_.tensor().count() != rows || maxima_.tensor().data == nullptr) {
    maxima_ = Buffer(tp_.compute, {rows});
    sums_ = Buffer(tp_.compute, {2, rows});
  }
  tp_.compute.row_maxima(logits, maxima_);
  tp_.group.all_reduce(maxima_, maxima_, tuttiMax, tp_.compute.stream());
  // One all-reduce for both.
  const Tensor exponentials = sums_.tensor().chunk(0, 2), target_logits = sums_.tensor().chunk(1, 2);
  tp_.compute.exponential_sums(logits, maxima_, targets, range_.first, exponentials, target_logits);
  all_reduce(tp_, sums_);
  tp_.compute.cross_entropy(exponentials, target_logits, losses);
}

void VocabParallelCrossEntropy::backward(const Tensor& logits, const Tensor& targets, const Tensor& grad_losses,
                                         const Tensor& grad_logits) {
  require_equal("the number of rows of logits", logits.rows(), "forward's", maxima_.tensor().count());
  require_shape("grad_logits", grad_logits, logits.shape);
  tp_.compute.cross_entropy_backward(logits, maxima_, sums_.tensor().chunk(0, 2), targets, range_.first, grad_losses,
                                     grad_logits);
}

}  // namespace tutti::parallel
