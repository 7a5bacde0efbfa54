#include "memory.h"

#include <algorithm>

#include "sharded_parameters.h"

namespace train_lm {
namespace {

// In elements.
struct Unit {
  std::string name;
  std::uint64_t all = 0, mine = 0;
};

std::vector<Unit> UnitsOf(const TrainConfig& config, const std::vector<StageRange>& ranges, ParallelState& state) {
  const auto& replicas = state.get_data_parallel_group(true);
  const int ranks = config.zero == 0 ? 1 : config.shard_group == 0 ? replicas.size() : config.shard_group;
  std::vector<Unit> units;
  for (const auto& range : ranges) {
    for (const auto& spec : parameters_of(config.model, range)) {
      const auto name = unit_of(spec.name);
      if (units.empty() || units.back().name != name) units.push_back({name});
      units.back().all += Tensor(static_cast<float*>(nullptr), part_shape(spec, state)).count();
    }
  }
  const auto rank = static_cast<std::uint64_t>(replicas.rank() % ranks);
  for (auto& unit : units) {
    const std::uint64_t most = (unit.all + static_cast<std::uint64_t>(ranks) - 1) / static_cast<std::uint64_t>(ranks);
    unit.mine = std::min((rank + 1) * most, unit.all) - std::min(rank * most, unit.all);
  }
  return units;
}

}  // namespace

MemoryUse expected_memory(const TrainConfig& config, const std::vector<StageRange>& ranges, ParallelState& state) {
  const auto units = UnitsOf(config, ranges, state);
  const bool several = config.microbatches > 1;
  std::uint64_t all = 0, mine = 0, two = 0, two_reduced = 0;
  const auto neighbours = [&](const Unit& unit, const Unit& next) {
    two_reduced = std::max(two_reduced, unit.all + next.all + (several ? next.mine : 0));
  };
  for (std::size_t i = 0; i < units.size(); ++i) {
    all += units[i].all;
    mine += units[i].mine;
    if (i + 1 == units.size()) break;
    two = std::max(two, units[i].all + units[i + 1].all);
    neighbours(units[i], units[i + 1]);
  }
  // In a pipeline a backward pass may follow another.
  if (several && state.get_pipeline_model_parallel_world_size() > 1) neighbours(units.back(), units.front());
  const std::uint64_t parameters = config.zero == 3 ? mine + two : all;
  const std::uint64_t gradients = config.zero >= 2 ? mine + two_reduced : all;
  const std::uint64_t moments = 2 * (config.zero >= 1 ? mine : all);
  return {parameters * sizeof(float), gradients * sizeof(float), moments * sizeof(float)};
}

}  // namespace train_lm
