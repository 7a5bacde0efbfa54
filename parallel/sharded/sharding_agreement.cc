#include "parallel/sharded/sharding_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "parallel/data/parameter_agreement.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

std::string ProblemOf(const ShardedUnit& unit) {
  if (unit.parameters.empty()) return fmt::format("unit \"{}\" has no parameters", unit.name);
  const auto& first = unit.parameters.front();
  for (const auto& parameter : unit.parameters) {
    const auto dtype = parameter.data.dtype;
    if (dtype != tuttiFloat32 && dtype != tuttiBfloat16) {
      return fmt::format("parameter \"{}\" of unit \"{}\" is {}; it can be float32 or bfloat16", parameter.name,
                         unit.name, name_of(dtype));
    }
    if (dtype != first.data.dtype) {
      return fmt::format("unit \"{}\" has parameters of two types: \"{}\" is {}, \"{}\" is {}", unit.name, first.name,
                         name_of(first.data.dtype), parameter.name, name_of(dtype));
    }
  }
  return {};
}

std::string ProblemOf(const ProcessGroup& group, int shard_group_size) {
  if (shard_group_size >= 1 && group.size() % shard_group_size == 0) return {};
  return fmt::format("the group's size ({}) is not divisible by shard_group_size ({})", group.size(), shard_group_size);
}

// A problem of this rank's arguments alone; empty if there is none.
std::string ProblemOf(ProcessGroup& group, const std::vector<ShardedUnit>& units,
                      const FullyShardedDataParallelConfig& config) {
  auto problem = ProblemOf(group, shard_group_size_of({}, group, config));
  std::vector<Parameter> all;
  int chunk = 0;
  for (const auto& unit : units) {
    if (!problem.empty()) return problem;
    problem = ProblemOf(unit);
    if (problem.empty() && unit.group != nullptr) {
      problem = ProblemOf(*unit.group, shard_group_size_of(unit, group, config));
      if (!problem.empty()) problem = fmt::format("unit \"{}\": {}", unit.name, problem);
    }
    if (unit.group == nullptr && unit.shard_group_size != 0) {
      return fmt::format("unit \"{}\" has a shard_group_size ({}), but no group of its own", unit.name,
                         unit.shard_group_size);
    }
    if (unit.chunk < chunk) {
      return fmt::format("unit \"{}\" of chunk {} comes after a unit of chunk {}", unit.name, unit.chunk, chunk);
    }
    chunk = unit.chunk;
    for (const auto& parameter : unit.parameters) {
      all.push_back({fmt::format("{}: {}", unit.name, parameter.name), parameter.data});
    }
  }
  return problem.empty() ? problem_of(all) : problem;
}

std::string DescriptionOf(const ProcessGroup& group, const FullyShardedDataParallelConfig& config) {
  return fmt::format("ZeRO stage {} with shards over {} ranks and a gradient divisor of {}",
                     static_cast<int>(config.stage), shard_group_size_of({}, group, config), config.gradient_divisor);
}

// The texts that ranks compare in `group`: each parameter of units that all its ranks have; for other units a summary.
std::vector<std::string> DescriptionsOf(ProcessGroup& group, const std::vector<ShardedUnit>& units,
                                        const FullyShardedDataParallelConfig& config) {
  std::vector<std::string> descriptions;
  for (const auto& unit : units) {
    if (unit.group != nullptr) {
      descriptions.push_back(fmt::format("unit \"{}\" of chunk {} with shards over {} of {} ranks", unit.name,
                                         unit.chunk, shard_group_size_of(unit, group, config), unit.group->size()));
      continue;
    }
    for (const auto& parameter : unit.parameters) {
      descriptions.push_back(
          fmt::format("{} in unit \"{}\" of chunk {}", description_of(parameter), unit.name, unit.chunk));
    }
  }
  return descriptions;
}

std::vector<std::string> DescriptionsOf(const ProcessGroup& own, const std::vector<ShardedUnit>& units) {
  std::vector<std::string> descriptions;
  for (const auto& unit : units) {
    if (unit.group != &own) continue;
    for (const auto& parameter : unit.parameters) {
      descriptions.push_back(fmt::format("{} in unit \"{}\"", description_of(parameter), unit.name));
    }
  }
  return descriptions;
}

}  // namespace

ProcessGroup& group_of(const ShardedUnit& unit, ProcessGroup& group) {
  return unit.group != nullptr ? *unit.group : group;
}

int shard_group_size_of(const ShardedUnit& unit, const ProcessGroup& group,
                        const FullyShardedDataParallelConfig& config) {
  const int size = unit.group != nullptr ? unit.shard_group_size : config.shard_group_size;
  return size != 0 ? size : (unit.group != nullptr ? *unit.group : group).size();
}

void require_agreement(ProcessGroup& group, const std::vector<ShardedUnit>& units,
                       const FullyShardedDataParallelConfig& config) {
  const auto problem = ProblemOf(group, units, config);
  Complaint complaint;
  if (!problem.empty()) {
    complaint = {tuttiInvalidArgument, fmt::format("rank {} of group \"{}\": {}", group.rank(), group.name(), problem)};
  }
  complaint = first_complaint(group, complaint);
  if (complaint.text.empty()) complaint = difference_of(group, {DescriptionOf(group, config)});
  if (complaint.text.empty()) complaint = difference_of(group, DescriptionsOf(group, units, config));

  const bool known = !complaint.text.empty();  // by all of the group; else its ranks have the same units

  std::vector<ProcessGroup*> own;  // in the order of units
  for (const auto& unit : units) {
    if (unit.group != nullptr && std::ranges::count(own, unit.group) == 0) own.push_back(unit.group);
  }
  for (auto* const each : own) {
    if (known && std::ranges::includes(group.ranks(), each->ranks())) continue;  // all there have the error
    complaint = first_complaint(*each, complaint);
    if (complaint.text.empty()) complaint = difference_of(*each, DescriptionsOf(*each, units));
  }
  if (!known && !own.empty()) complaint = first_complaint(group, complaint);
  if (!complaint.text.empty()) throw Error(complaint.code, complaint.text);
}

}  // namespace tutti::parallel
