// Attention over a sequence that is split over a context-parallel group: inside groups of `ulysses` ranks heads are
// exchanged for the sequence, across them keys and values go round a ring. With one rank in a group the other one does
// it alone; with one in both it is plain attention.
//
// Source: Fang and Zhao 2024, "USP: A Unified Sequence Parallelism Approach for Long Context Generative AI"; the two
// alone are those of ulysses.h and ring_attention.h.
//
// Thread-safety: one thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/ring_attention.h"
#include "tutti/parallel/ulysses.h"

namespace tutti::parallel {

struct ContextParallelConfig {
  std::size_t sequence = 0;  // the whole one's length
  std::size_t batch = 0;
  std::size_t heads = 0;  // of this rank's part of the layer, if that is tensor-parallel
  std::size_t width = 0;  // of a head
  bool causal = true;
  SequencePlacement placement = SequencePlacement::zigzag;
  std::size_t kv_heads = 0;  // of keys and values, each for equally many neighbouring heads; 0: as many as heads
  // Of the positions up to its own a query sees the last so many; 0: all. The ring is the shorter for it with the
  // contiguous placement, which with a window gives all ranks the same to compute, too.
  std::size_t window = 0;
  tuttiDataType_t dtype = tuttiFloat32;  // or tuttiBfloat16
};

class ContextParallelAttention {
 public:
  // Collective over the product of both groups, such as get_ulysses_parallel_group() and get_ring_parallel_group().
  // Throws Error naming the quantity and both values, the same on every rank, if configurations differ, the sequence's
  // length does not divide by the ranks (zigzag: by twice the ring's size), the heads by kv_heads or the Ulysses
  // group's size, or neither of the two by the other. Groups and `attention` outlive this.
  ContextParallelAttention(ProcessGroup& ulysses, ProcessGroup& ring, AttentionCompute& attention,
                           const ContextParallelConfig& config);

  // Which positions of the sequence this rank holds, in its order: those of the ring rank's part, divided over the
  // Ulysses group one behind the other.
  const std::vector<std::size_t>& positions() const { return positions_; }
  std::size_t rows() const { return positions_.size(); }

  struct Saved {
    Buffer lse;
    Buffer qkv, out;  // exchanged for all of the ring rank's sequence; empty unless heads are
  };
  // Collective, both. qkv [rows(), batch, kv_heads, heads / kv_heads + 2, width] (mixed_heads.h), out [rows(), batch,
  // heads, width]; both are to be kept. If `attention` throws in the middle, the ring's communicator is revoked.
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

  ProcessGroup& ulysses_;
  AttentionCompute& attention_;
  ContextParallelConfig config_;
  RingAttention ring_attention_;
  std::vector<std::size_t> positions_;
  std::size_t copies_;  // of each head of keys and values, where there are fewer than ranks that exchange heads
};

}  // namespace tutti::parallel
