// Queries, keys and values of attention's heads in one tensor, as Megatron-Core's projection gives them: [positions,
// batch, kv_heads, heads / kv_heads + 2, width]. A group of heads / kv_heads queries is followed by the key and the
// value that all of them see (Ainslie et al. 2023, "GQA"); if kv_heads equals heads, this is [.., heads, 3, width].
//
// Thread-safety: one thread at a time.
#pragma once

#include "tutti/parallel/compute.h"

namespace tutti::parallel {

// REQUIRES: kv_heads divides heads.
TUTTI_API Shape mixed_shape(std::size_t positions, std::size_t batch, std::size_t heads, std::size_t kv_heads,
                            std::size_t width);

// Splits each group into `copies` smaller ones, which have a part of its queries each, and all the same key and value.
// mixed [positions, batch, kv_heads, queries + 2, width], split [positions, batch, kv_heads * copies, queries / copies
// + 2, width].
TUTTI_API Shape split_groups_shape(Shape mixed, std::size_t copies);
TUTTI_API void split_groups(Compute& compute, const Tensor& mixed, const Tensor& split);
// Its gradient: that of a key or a value is the sum of its copies', added in float32, and rounded once.
TUTTI_API void split_groups_backward(Compute& compute, const Tensor& grad_split, const Tensor& grad_mixed);

}  // namespace tutti::parallel
