// Ranks that share models check that these are the same ones, shared in the same way, before any of them is sent.
//
// Thread-safety: one thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/fully_sharded_data_parallel.h"

namespace tutti::parallel {

// The group that has a unit, and the number of its ranks that share it.
ProcessGroup& group_of(const ShardedUnit& unit, ProcessGroup& group);
int shard_group_size_of(const ShardedUnit& unit, const ProcessGroup& group,
                        const FullyShardedDataParallelConfig& config);

// Collective over `group` and the units' groups: throws the errors of FullyShardedDataParallel's constructor. An error
// in a unit's group reaches every rank that shares a group with one of its ranks.
void require_agreement(ProcessGroup& group, const std::vector<ShardedUnit>& units,
                       const FullyShardedDataParallelConfig& config);

}  // namespace tutti::parallel
