// The two ends of a language model whose vocabulary is split over a group: the embedding, and the loss over logits.
// Every rank has its own columns of the logits, so that no rank ever holds a whole row of them.
//
// Source: Shoeybi et al. 2019, "Megatron-LM" (section 3; the fused loss sends two numbers a token instead of a row).
//
// Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/mappings.h"

namespace tutti::parallel {

// The ids of rank `tp.rank()`: [first, first + count). Throws Error unless the group's size divides the vocabulary.
struct TUTTI_API VocabRange {
  std::int32_t first = 0;
  std::size_t count = 0;
};
TUTTI_API VocabRange vocab_range(const TensorParallel& tp, std::size_t vocabulary_size);

class TUTTI_API VocabParallelEmbedding {
 public:
  // weight: this rank's rows, [vocabulary_size / size, embedding_size]; backward adds to grad_weight.
  VocabParallelEmbedding(TensorParallel tp, std::size_t vocabulary_size, std::size_t embedding_size, Tensor weight,
                         Tensor grad_weight, bool sequence_parallel = false);

  // ids (int32) [..]; output [.., embedding_size] - with sequence parallelism this rank's part of the first dimension.
  void forward(const Tensor& ids, const Tensor& output);
  void backward(const Tensor& ids, const Tensor& grad_output);

 private:
  Shape Check(const Tensor& ids, const Tensor& output) const;

  TensorParallel tp_;
  VocabRange range_;
  Tensor weight_, grad_weight_;
  bool sequence_parallel_;
};

class TUTTI_API VocabParallelCrossEntropy {
 public:
  explicit VocabParallelCrossEntropy(TensorParallel tp, std::size_t vocabulary_size);

  // logits: this rank's columns, [rows, vocabulary_size / size]; targets (int32), losses: an element a row. Keeps what
  // backward needs except the logits, which must not change until then.
  void forward(const Tensor& logits, const Tensor& targets, const Tensor& losses);
  // grad_losses: an element a row. grad_logits may be logits.
  void backward(const Tensor& logits, const Tensor& targets, const Tensor& grad_losses, const Tensor& grad_logits);

 private:
  TensorParallel tp_;
  VocabRange range_;
  Buffer maxima_, sums_;
};

}  // namespace tutti::parallel
