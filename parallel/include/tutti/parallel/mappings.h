// The functions at the borders of tensor- and sequence-parallel regions, in Megatron's names. Each has a gradient,
// which is the other one of its pair:
//
//   forward                                     its gradient
//   copy_to_tensor_model_parallel_region        all-reduce               (forward: nothing)
//   reduce_from_tensor_model_parallel_region    nothing                  (forward: all-reduce)
//   scatter_to_tensor_model_parallel_region     gather last dimension    (forward: own columns)
//   gather_from_tensor_model_parallel_region    own columns              (forward: gather last dimension)
//   scatter_to_sequence_parallel_region         gather first dimension   (forward: own rows)
//   gather_from_sequence_parallel_region        reduce-scatter           (forward: gather first dimension)
//   reduce_scatter_to_sequence_parallel_region  gather first dimension   (forward: reduce-scatter)
//
// Sources: Shoeybi et al. 2019, "Megatron-LM" (f and g); Korthikanti et al. 2022, "Reducing Activation Recomputation in
// Large Transformer Models" (the sequence).
//
// A tensor's sequence is its first dimension; tensor parallelism splits its last. All shapes are checked, and named in
// the error, before anything is sent. Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// The ranks that share the layers, and their processor.
struct TUTTI_API TensorParallel {
  ProcessGroup& group;
  Compute& compute;

  std::size_t size() const { return static_cast<std::size_t>(group.size()); }
  std::size_t rank() const { return static_cast<std::size_t>(group.rank()); }
};

// tensor = the sum over the group, in place.
TUTTI_API void all_reduce(const TensorParallel& tp, const Tensor& tensor);
// output [.., size * n] from every rank's input [.., n], and back.
TUTTI_API void gather_last_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output);
TUTTI_API void split_last_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output);
// output [size * s, ..] from every rank's input [s, ..], and back.
TUTTI_API void gather_first_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output);
TUTTI_API void split_first_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output);
// output [s, ..]: this rank's rows of the sum of all ranks' inputs [size * s, ..].
TUTTI_API void reduce_scatter_first_dimension(const TensorParallel& tp, const Tensor& input, const Tensor& output);

// The shape of one rank's part of the whole sequence. Throws Error unless the sequence's length divides.
TUTTI_API Shape part_of_sequence(const TensorParallel& tp, Shape whole);

// The table above. Entries that do nothing have no function.
inline constexpr auto& copy_to_tensor_model_parallel_region_backward = all_reduce;
inline constexpr auto& reduce_from_tensor_model_parallel_region = all_reduce;
inline constexpr auto& scatter_to_tensor_model_parallel_region = split_last_dimension;
inline constexpr auto& scatter_to_tensor_model_parallel_region_backward = gather_last_dimension;
inline constexpr auto& gather_from_tensor_model_parallel_region = gather_last_dimension;
inline constexpr auto& gather_from_tensor_model_parallel_region_backward = split_last_dimension;
inline constexpr auto& scatter_to_sequence_parallel_region = split_first_dimension;
inline constexpr auto& scatter_to_sequence_parallel_region_backward = gather_first_dimension;
inline constexpr auto& gather_from_sequence_parallel_region = gather_first_dimension;
inline constexpr auto& gather_from_sequence_parallel_region_backward = reduce_scatter_first_dimension;
inline constexpr auto& reduce_scatter_to_sequence_parallel_region = reduce_scatter_first_dimension;
inline constexpr auto& reduce_scatter_to_sequence_parallel_region_backward = gather_first_dimension;

}  // namespace tutti::parallel
