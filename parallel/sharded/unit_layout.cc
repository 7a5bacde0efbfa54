#include "parallel/sharded/unit_layout.h"

#include <utility>
#include <vector>

namespace tutti::parallel {
namespace {

FlatParameter FlatOf(const ShardedUnit& unit, int ranks) {
  std::vector<Shape> shapes;
  for (const auto& parameter : unit.parameters) shapes.push_back(parameter.data.shape);
  return {std::move(shapes), static_cast<std::size_t>(ranks)};
}

}  // namespace

UnitLayout::UnitLayout(ShardedUnit unit, ProcessGroup& all, HybridShardingGroups& groups, ZeroStage stage)
    : specs(std::move(unit)),
      all(all),
      groups(groups),
      flat(FlatOf(specs, groups.shard().size())),
      stage(groups.shard().size() > 1 ? stage : ZeroStage::optimizer_state) {}

}  // namespace tutti::parallel
