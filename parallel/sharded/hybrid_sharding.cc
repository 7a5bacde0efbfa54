#include "tutti/parallel/hybrid_sharding.h"

namespace tutti::parallel {

HybridShardingGroups::HybridShardingGroups(ProcessGroup& group, int shard_size, const tuttiConfig_t& config)
    : mesh_(group, MeshLayout({{"replicate", group.size() / shard_size}, {"shard", shard_size}}), config,
            group.name() + " "),
      shard_(shard_size == group.size() ? &group : &mesh_.group("shard")),
      replicate_(shard_size == 1 ? &group : &mesh_.group("replicate")) {}

}  // namespace tutti::parallel
