// Parameters that lie one behind the other in one piece of memory, which is cut into a shard for each rank: FSDP's
// FlatParameter.
//
//   elements   | weight ........ | bias . | weight .... | bias . |
//   shards     | rank 0 ..... | rank 1 ..... | rank 2 ..... | 3  |      all equal, the last ones shorter or empty
//
// Nothing is padded: the collectives' v-forms take unequal shards, so that memory and bytes match the formulas.
//
// Source: Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel".
//
// Thread-safety: values; const functions from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/parallel/tensor.h"

namespace tutti::parallel {

class TUTTI_API FlatParameter {
 public:
  // Lays out parameters of these shapes over `ranks` ranks.
  FlatParameter(std::vector<Shape> shapes, std::size_t ranks);

  std::size_t count() const { return count_; }  // of elements
  // Elements of each rank's shard.
  const std::vector<std::size_t>& shard_counts() const { return shard_counts_; }
  // A parameter in `flat`, which has count() elements. It has no memory if `flat` has none.
  Tensor parameter(const Tensor& flat, std::size_t parameter) const;
  // A rank's shard in `flat`.
  Tensor shard(const Tensor& flat, std::size_t rank) const;

 private:
  std::vector<Shape> shapes_;
  std::vector<std::size_t> firsts_;  // elements, by parameter
  std::size_t count_ = 0;
  std::vector<std::size_t> shard_counts_;
};

}  // namespace tutti::parallel
