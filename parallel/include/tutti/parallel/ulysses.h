// Exchanges a rank's part of the sequence with all heads for the whole sequence with its part of the heads, and back,
// so that attention runs on whole sequences as if nothing were split.
//
// Source: Jacobs et al. 2023, "DeepSpeed Ulysses": all-to-alls of queries, keys, values before attention and of its
// output after it, of N h elements each; each of P ranks sends (P - 1) / P of its N h / P of each. The gradient of one
// exchange is the other one.
//
// If P does not divide the sequence, ranks hold the parts that part_of() gives them, and send no more than those.
//
// Tensors are [sequence, batch, heads, ..]. A head's part may have any shape, such as mixed queries, keys and values
// [3, width], which are then exchanged at once. A rank's rows of the sequence lie one behind the other, so the side
// with the whole sequence is sent from and received into as it is. The other side's heads lie side by side in each row:
// the all-to-all reads and writes them there (tuttiAlltoAllTensor), unless parts are uneven: then one copy packs them.
//
// Elements are float32 or bfloat16. All shapes are checked, and named in the error, before anything is sent.
// Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// input [part of s, batch, heads, ..]; output [s, batch, heads / size, ..].
TUTTI_API void scatter_heads_gather_sequence(ProcessGroup& group, Compute& compute, const Tensor& input,
                                             const Tensor& output);
// input [s, batch, heads / size, ..]; output [part of s, batch, heads, ..].
TUTTI_API void scatter_sequence_gather_heads(ProcessGroup& group, Compute& compute, const Tensor& input,
                                             const Tensor& output);

inline constexpr auto& scatter_heads_gather_sequence_backward = scatter_sequence_gather_heads;
inline constexpr auto& scatter_sequence_gather_heads_backward = scatter_heads_gather_sequence;

}  // namespace tutti::parallel
