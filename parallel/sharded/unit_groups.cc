#include "parallel/sharded/unit_groups.h"

#include "parallel/sharded/sharding_agreement.h"

namespace tutti::parallel {

HybridShardingGroups& UnitGroups::Of(const ShardedUnit& unit) {
  auto& all = group_of(unit, group_);
  const int size = shard_group_size_of(unit, group_, config_);
  for (auto& sharers : sharers_) {
    if (sharers.all == &all && sharers.shard_group_size == size) return sharers.groups;
  }
  auto& groups = sharers_.emplace_back(Sharers{&all, size, {all, size, config_.communicators}}).groups;
  for (auto* const each : {&groups.shard(), &groups.replicate()}) {
    if (each->size() == 1) continue;
    each->comm();
    communicating_.push_back(each);
  }
  return groups;
}

std::map<std::string, std::uint64_t> UnitGroups::bytes_sent() const {
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& sharers : sharers_) {
    for (const auto& [name, sent] : sharers.groups.bytes_sent()) bytes[name] += sent;
  }
  return bytes;
}

}  // namespace tutti::parallel
