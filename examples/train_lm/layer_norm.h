// The norm before each layer of a block, and the surroundings that a block's layers share.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>

#include "parameters.h"
#include "tutti/parallel/context_parallel.h"
#include "tutti/parallel/token_dispatcher.h"

namespace train_lm {

using tutti::parallel::TensorParallel;

// Objects that a block's layers share.
struct Surroundings {
  const ModelConfig& model;
  Math& math;
  Parameters& parameters;
  TensorParallel tp;
  tutti::parallel::ContextParallelAttention& attention;
  bool sequence_parallel;
  std::size_t batch;  // samples of a micro-batch
  tutti::parallel::ProcessGroup& experts;
  tutti::parallel::MoEAlltoAllTokenDispatcher* dispatcher;  // null: there are no experts

  // "sequence" is the tensor-parallel group's part of it: the context-parallel rank's.
  // [sequence (or this rank's part), batch, columns].
  Shape rows_of_sequence(std::size_t columns) const {
    return {sequence_parallel ? attention.rows() / tp.size() : attention.rows(), batch, columns};
  }
  // [sequence, batch, this rank's part of columns].
  Shape part_of_columns(std::size_t columns) const { return {attention.rows(), batch, columns / tp.size()}; }
  Buffer make(Shape shape) const { return {math.compute(), std::move(shape)}; }
};

class LayerNorm {
 public:
  LayerNorm(const Surroundings& surroundings, std::string name) : in_(surroundings), name_(std::move(name)) {}

  struct Saved {
    Buffer y, statistics;
  };
  Saved forward(const Tensor& x) const;
  // Adds to grad_x. The gradients of gain and bias may be deferred.
  void backward(const Tensor& x, const Saved& saved, Buffer grad_y, const Tensor& grad_x) const;

 private:
  const Surroundings& in_;
  std::string name_;
};

}  // namespace train_lm
