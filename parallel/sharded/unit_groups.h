// The groups in which ranks share units. Units that the same ranks share in the same way have the same groups.
//
// Invariant: all ranks make the groups' communicators in the same order, since a communicator is made with the first
// unit that needs it.
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tutti/parallel/fully_sharded_data_parallel.h"
#include "tutti/parallel/hybrid_sharding.h"

namespace tutti::parallel {

class UnitGroups {
 public:
  // `group`: the ranks that have the units without a group of their own; it outlives this.
  UnitGroups(ProcessGroup& group, const FullyShardedDataParallelConfig& config) : group_(group), config_(config) {}
  UnitGroups(const UnitGroups&) = delete;
  UnitGroups& operator=(const UnitGroups&) = delete;

  // Collective over the unit's group. The groups live as long as this. Throws Error where a communicator cannot be made.
  HybridShardingGroups& Of(const ShardedUnit& unit);

  // Those of several ranks, which have a communicator.
  const std::vector<ProcessGroup*>& communicating() const { return communicating_; }
  // Payload in bytes that this rank has sent, by the name of a group that was made here.
  std::map<std::string, std::uint64_t> bytes_sent() const;

 private:
  struct Sharers {
    ProcessGroup* all;
    int shard_group_size;
    HybridShardingGroups groups;
  };

  ProcessGroup& group_;
  FullyShardedDataParallelConfig config_;
  std::deque<Sharers> sharers_;  // a deque, whose elements keep their addresses
  std::vector<ProcessGroup*> communicating_;
};

}  // namespace tutti::parallel
