// Linear layers whose weight is split over a group: column-parallel by its outputs, row-parallel by its inputs. The
// first followed by the second needs one all-reduce forward and one backward - or, with sequence parallelism, an
// all-gather and a reduce-scatter, and everything between the pairs is split along the sequence.
//
// Sources: Shoeybi et al. 2019, "Megatron-LM"; Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
// Transformer Models".
//
// The application owns the weights, [outputs, inputs] as in Megatron, and their gradients, to which backward adds.
// Inputs and outputs are [.., features]; the caller keeps the input of forward and passes it to backward. grad_input
// needs memory of its own: the weight's gradient is computed from the input and grad_output after, or while, grad_input
// is written.
//
// Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/mappings.h"
#include "tutti/parallel/weight_grad_store.h"

namespace tutti::parallel {

// A layer's parameters and their gradients; a bias may be left out (data null). `later`: takes gradients while it
// defers them; it outlives the layer.
struct TUTTI_API LinearParameters {
  Tensor weight;
  Tensor bias;
  Tensor grad_weight;
  Tensor grad_bias;
  WeightGradStore* later = nullptr;
};

struct TUTTI_API ColumnParallelOptions {
  bool gather_output = false;      // every rank gets all outputs
  bool sequence_parallel = false;  // the input is this rank's part of the sequence
};

class TUTTI_API ColumnParallelLinear {
 public:
  // weight: this rank's [output_size / size, input_size]; bias: [output_size / size]. Throws Error naming the quantity
  // and both values if output_size does not divide or a shape does not fit.
  ColumnParallelLinear(TensorParallel tp, std::size_t input_size, std::size_t output_size, LinearParameters parameters,
                       ColumnParallelOptions options = {});

  // input [rows, input_size] ([rows / size, ..] with sequence parallelism); output [rows, output_size / size], or
  // [rows, output_size] with gather_output.
  void forward(const Tensor& input, const Tensor& output);
  // Adds to the parameters' gradients, and writes grad_input, in the shape of the input. The communication of
  // grad_input overlaps with the computation of the weight's gradient.
  void backward(const Tensor& input, const Tensor& grad_output, const Tensor& grad_input);

 private:
  Shape OutputShape(const Tensor& input) const;
  Buffer Gathered(const Tensor& input) const;

  TensorParallel tp_;
  std::size_t input_size_, output_size_;
  LinearParameters parameters_;
  ColumnParallelOptions options_;
};

struct TUTTI_API RowParallelOptions {
  bool input_is_parallel = true;   // the input has this rank's columns only
  bool sequence_parallel = false;  // the output is this rank's part of the sequence
};

class TUTTI_API RowParallelLinear {
 public:
  // weight: this rank's [output_size, input_size / size]; bias: the whole one, [output_size], equal on all ranks.
  RowParallelLinear(TensorParallel tp, std::size_t input_size, std::size_t output_size, LinearParameters parameters,
                    RowParallelOptions options = {});

  // input [rows, input_size / size], or [rows, input_size] unless input_is_parallel; output [rows, output_size]
  // ([rows / size, ..] with sequence parallelism).
  void forward(const Tensor& input, const Tensor& output);
  // grad_bias is equal on all ranks.
  void backward(const Tensor& input, const Tensor& grad_output, const Tensor& grad_input);

 private:
  Tensor Check(const Tensor& input, const Tensor& output) const;

  TensorParallel tp_;
  std::size_t input_size_, output_size_;
  LinearParameters parameters_;
  RowParallelOptions options_;
};

}  // namespace tutti::parallel
