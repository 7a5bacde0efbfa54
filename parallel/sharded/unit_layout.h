// A unit as its ranks share it: which ranks do, what of it they share, and where each one's shard lies. It has no memory
// of its own.
//
// Thread-safety: a value; const functions from any thread.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/parallel/flat_parameter.h"
#include "tutti/parallel/fully_sharded_data_parallel.h"
#include "tutti/parallel/hybrid_sharding.h"

namespace tutti::parallel {

struct UnitLayout {
  // `all`: the ranks that have the unit; `groups`: the same ranks as a grid. Both outlive this. `stage`: the config's.
  UnitLayout(ShardedUnit unit, ProcessGroup& all, HybridShardingGroups& groups, ZeroStage stage);

  ShardedUnit specs;
  ProcessGroup& all;
  HybridShardingGroups& groups;
  FlatParameter flat;  // its parameters, over the ranks of a shard group
  ZeroStage stage;     // optimizer_state where a rank has no others to share with

  const std::string& name() const { return specs.name; }
  tuttiDataType_t dtype() const { return specs.parameters.front().data.dtype; }
  bool shards(ZeroStage what) const { return stage >= what; }
  // Whether the optimiser has a copy of its own, in float32.
  bool has_master() const { return dtype() != tuttiFloat32; }
  // Elements of all parameters, and of this rank's shard; the latter may be 0.
  std::size_t count() const { return flat.count(); }
  std::size_t shard_count() const { return flat.shard_counts()[shard_rank()]; }
  // This rank's shard, [shard_count()], in a tensor of all elements, [count()].
  Tensor shard(const Tensor& whole) const { return flat.shard(whole, shard_rank()); }

 private:
  std::size_t shard_rank() const { return static_cast<std::size_t>(groups.shard().rank()); }
};

}  // namespace tutti::parallel
