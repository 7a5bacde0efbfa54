// Attention over a sequence that is split over a context-parallel group: groups of `ulysses` ranks exchange heads for
// the sequence; across these groups, keys and values go round a ring. If one of the two has a single rank, the other
// does it alone; if both have, it is plain attention.
//
// Source: Fang and Zhao 2024, "USP: A Unified Sequence Parallelism Approach for Long Context Generative AI"; ulysses.h
// and ring_attention.h have the two methods alone.
//
// Thread-safety: one thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/ring_attention.h"
#include "tutti/parallel/ulysses.h"

namespace tutti::parallel {

struct TUTTI_API ContextParallelConfig {
  std::size_t sequence = 0;  // length of the whole one, which the ranks need not divide
  std::size_t batch = 0;
  std::size_t heads = 0;  // of this rank's part of the layer, if that is tensor-parallel
  std::size_t width = 0;  // of a head
  bool causal = true;
  SequencePlacement placement = SequencePlacement::zigzag;
  std::size_t kv_heads = 0;  // of keys and values, each for equally many neighbouring heads; 0: as many as heads
  // A query sees only the last `window` positions up to its own; 0: all. With the contiguous placement a window makes
  // the ring shorter, and gives all ranks the same to compute, too.
  std::size_t window = 0;
  tuttiDataType_t dtype = tuttiFloat32;  // or tuttiBfloat16
  // Samples that lie one behind the other in the sequence, and do not see each other: 0, the first one's end, ...,
  // `sequence`, as FlashAttention's. Empty: the sequence is one.
  std::vector<std::size_t> cu_seqlens = {};
};

// The positions that a context-parallel rank holds, in its order, which ascends: the Ulysses group divides the ring
// rank's into consecutive parts (part_of). Throws Error unless cu_seqlens begins with 0 and ascends.
TUTTI_API std::vector<std::size_t> context_positions(SequencePlacement placement,
                                                     const std::vector<std::size_t>& cu_seqlens,
                                                     std::size_t ulysses_rank, std::size_t ulysses_size,
                                                     std::size_t ring_rank, std::size_t ring_size);

class TUTTI_API ContextParallelAttention {
 public:
  // Collective over the product of both groups, such as get_ulysses_parallel_group() and get_ring_parallel_group().
  // Throws Error naming the quantity and both values, the same on every rank, if configurations differ, the samples do
  // not make up the sequence, the heads do not divide by kv_heads or the Ulysses group's size, or neither of these two
  // divides by the other. Groups and `attention` outlive this.
  ContextParallelAttention(ProcessGroup& ulysses, ProcessGroup& ring, AttentionCompute& attention,
                           const ContextParallelConfig& config);

  // Of this rank: see context_positions().
  const std::vector<std::size_t>& positions() const { return positions_; }
  std::size_t rows() const { return positions_.size(); }

  struct Saved {
    Buffer lse;
    Buffer qkv, out;  // of the ring rank's whole sequence, after the exchange of heads; empty without one
  };
  // Both are collective. qkv [rows(), batch, kv_heads, heads / kv_heads + 2, width] (mixed_heads.h), out [rows(),
  // batch, heads, width]; the caller keeps both. If `attention` throws midway, this revokes both groups'
  // communicators, and their other ranks get an Error.
  Saved forward(const Tensor& qkv, const Tensor& out);
  void backward(const Tensor& qkv, const Tensor& out, const Saved& saved, const Tensor& grad_out,
                const Tensor& grad_qkv);

 private:
  bool exchanges() const { return ulysses_.size() > 1; }
  // Throws Error naming the tensor and both shapes or types.
  struct Named {
    const char* what;
    const Tensor& tensor;
  };
  void Require(const std::vector<Named>& mixed, const std::vector<Named>& outputs) const;
  Shape ForRing(Shape part) const;
  bool copies_keys() const { return copies_ > 1; }
  Shape ToExchange(const Tensor& qkv) const;

  ProcessGroup &ulysses_, &ring_;
  AttentionCompute& attention_;
  ContextParallelConfig config_;
  RingAttention ring_attention_;
  std::vector<std::size_t> positions_;
  std::size_t copies_;  // of each head of keys and values, if they are fewer than the ranks that exchange heads
};

}  // namespace tutti::parallel
