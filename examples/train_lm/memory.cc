#include "memory.h"

#include <algorithm>
#include <array>
#include <map>

namespace train_lm {
namespace {

using tutti::parallel::PipelineAction;
using tutti::parallel::PipelinePass;

// Sizes are in elements.
struct Unit {
  std::string name;
  std::size_t chunk = 0;
  bool expert = false;
  std::uint64_t all = 0, mine = 0;
  // Zero unless ranks share the unit, so that its elements come and go.
  std::uint64_t moved = 0, arriving = 0;
};

std::vector<Unit> UnitsOf(const TrainConfig& config, const std::vector<StageRange>& ranges, ParallelState& state) {
  std::vector<Unit> units;
  for (const auto& spec : parameters_of(config.model, ranges)) {
    const auto name = unit_of(spec);
    if (units.empty() || units.back().name != name) {
      units.push_back({.name = name, .chunk = spec.chunk, .expert = spec.expert});
    }
    units.back().all += Tensor(static_cast<float*>(nullptr), part_shape(spec, state)).count();
  }
  for (auto& unit : units) {
    const auto& replicas = unit.expert ? state.get_expert_data_parallel_group() : state.get_data_parallel_group(true);
    const int group = unit.expert ? config.expert_shard_group : config.shard_group;
    const auto ranks = static_cast<std::uint64_t>(config.zero == 0 ? 1 : group == 0 ? replicas.size() : group);
    const std::uint64_t rank = static_cast<std::uint64_t>(replicas.rank()) % ranks;
    const std::uint64_t most = (unit.all + ranks - 1) / ranks;
    unit.mine = std::min((rank + 1) * most, unit.all) - std::min(rank * most, unit.all);
    if (ranks == 1) continue;
    unit.moved = unit.all;
    unit.arriving = unit.mine;
  }
  return units;
}

// One pass's use of a unit.
struct Use {
  const Unit* unit;
  PipelinePass pass;
  std::uint64_t gathered() const { return pass == PipelinePass::backward_weight ? 0 : unit->moved; }
  std::uint64_t added() const { return pass == PipelinePass::backward ? unit->moved : 0; }
};

std::vector<Use> UsesOf(const std::vector<Unit>& units, const std::vector<PipelineAction>& actions) {
  std::vector<Use> uses;
  for (const auto& action : actions) {
    const auto use = [&](const Unit& unit) {
      if (unit.chunk == static_cast<std::size_t>(action.chunk)) uses.push_back({&unit, action.pass});
    };
    if (action.pass == PipelinePass::forward) {
      std::for_each(units.begin(), units.end(), use);
    } else {
      std::for_each(units.rbegin(), units.rend(), use);
    }
  }
  return uses;
}

// Parameters: those of one use, and those gathered for the next one (if of the same unit, only when it begins).
std::uint64_t Gathered(const std::vector<Use>& uses) {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::uint64_t now = uses[i].gathered();
    const bool ahead = i + 1 < uses.size() && (now == 0 || uses[i + 1].unit != uses[i].unit);
    most = std::max(most, now + (ahead ? uses[i + 1].gathered() : 0));
  }
  return most;
}

// Gradients: those that one use computes, plus those that the use before left to be reduced.
std::uint64_t Reduced(const std::vector<Use>& uses) {
  std::uint64_t most = 0, left = 0;
  std::map<const Unit*, int> times;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::uint64_t added = uses[i].added();
    if (i > 0 && uses[i - 1].unit == uses[i].unit) left = 0;  // waits for its own gradients
    most = std::max(most, added + left);
    left = added + (added > 0 && times[uses[i].unit]++ > 0 ? uses[i].unit->arriving : 0);
    most = std::max(most, left);
  }
  return most;
}

// Gradients of a backward in two parts, over `microbatches` micro-batches.
std::uint64_t InPlaces(const std::vector<Unit>& units, std::size_t microbatches) {
  std::array<std::uint64_t, 2> places{};
  std::uint64_t arriving = 0;
  std::size_t place = 0;
  for (const auto& unit : units) {
    if (unit.moved == 0) continue;
    places[place] = std::max(places[place], unit.moved);
    place = (place + 1) % places.size();
    arriving = std::max(arriving, unit.arriving);
  }
  return places[0] + places[1] + (microbatches > 1 ? arriving : 0);
}

}  // namespace

MemoryUse expected_memory(const TrainConfig& config, const std::vector<StageRange>& ranges,
                          const std::vector<PipelineAction>& actions, ParallelState& state) {
  const auto units = UnitsOf(config, ranges, state);
  std::uint64_t all = 0, mine = 0;
  for (const auto& unit : units) {
    all += unit.all;
    mine += unit.mine;
  }
  const bool in_two_parts =
      std::ranges::find(actions, PipelinePass::backward_weight, &PipelineAction::pass) != actions.end();
  const auto uses = UsesOf(units, actions);
  const std::uint64_t moving = in_two_parts ? InPlaces(units, config.microbatches) : Reduced(uses);
  const std::uint64_t parameters = config.zero == 3 ? mine + Gathered(uses) : all;
  const std::uint64_t gradients = config.zero >= 2 ? mine + moving : all;
  const std::uint64_t moments = 2 * (config.zero >= 1 ? mine : all);
  return {parameters * sizeof(float), gradients * sizeof(float), moments * sizeof(float)};
}

}  // namespace train_lm
