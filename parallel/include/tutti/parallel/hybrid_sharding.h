// A group of ranks as a grid: a row shares the shards of one model, and a column's ranks have the same shard. Hybrid
// sharding (HSDP) gathers inside a row, where the network is fast, and averages the gradients' shards down the columns.
//
//   eight ranks, shards over four:    replicate |  shard  0 1 2 3       one shard group: one whole model
//                                               v         4 5 6 7       replicate groups: 0 4, 1 5, 2 6, 3 7
//
// Source: Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", 3.2.2; the axes' names
// are PyTorch's.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tutti/parallel/device_mesh.h"

namespace tutti::parallel {

class TUTTI_API HybridShardingGroups {
 public:
  // Shards over `shard_size` neighbours in the group, which outlives this; over all of it: no replicas. REQUIRES:
  // shard_size divides the group's size.
  HybridShardingGroups(ProcessGroup& group, int shard_size, const tuttiConfig_t& config);

  ProcessGroup& shard() const { return *shard_; }
  ProcessGroup& replicate() const { return *replicate_; }
  // Payload that this rank has sent by each group that was made here; for "dp" these are "dp shard" and "dp replicate".
  // A row or a column that is the whole group is that group.
  std::map<std::string, std::uint64_t> bytes_sent() const { return mesh_.bytes_sent(); }

 private:
  DeviceMesh mesh_;
  ProcessGroup* shard_;
  ProcessGroup* replicate_;
};

}  // namespace tutti::parallel
