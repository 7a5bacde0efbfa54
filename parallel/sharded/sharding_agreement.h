// Ranks that share models ask each other whether they are the same ones, shared in the same way, before any of it is
// sent.
//
// Thread-safety: one thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/fully_sharded_data_parallel.h"

namespace tutti::parallel {

// Of whom a unit is, and how many of them share it.
ProcessGroup& group_of(const ShardedUnit& unit, ProcessGroup& group);
int shard_group_size_of(const ShardedUnit& unit, const ProcessGroup& group,
                        const FullyShardedDataParallelConfig& config);

// Collective over `group` and the units' groups: what FullyShardedDataParallel's constructor throws. What is wrong in a
// unit's group is told to everybody who shares a group with one of its ranks.
void require_agreement(ProcessGroup& group, const std::vector<ShardedUnit>& units,
                       const FullyShardedDataParallelConfig& config);

}  // namespace tutti::parallel
