#include "tutti/parallel/fully_sharded_data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "parallel/joining.h"
#include "parallel/parameter_agreement.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

// Of this rank's arguments alone; empty if there is none.
std::string ProblemOf(const ProcessGroup& group, const std::vector<ShardedUnit>& units, int shard_group_size) {
  if (shard_group_size < 1 || group.size() % shard_group_size != 0) {
    return fmt::format("the group's size ({}) is not divisible by shard_group_size ({})", group.size(),
                       shard_group_size);
  }
  std::vector<Parameter> all;
  for (const auto& unit : units) {
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
      all.push_back({fmt::format("{}: {}", unit.name, parameter.name), parameter.data});
    }
  }
  return problem_of(all);
}

FlatParameter FlatOf(const ShardedUnit& unit, int ranks) {
  std::vector<Shape> shapes;
  for (const auto& parameter : unit.parameters) shapes.push_back(parameter.data.shape);
  return {std::move(shapes), static_cast<std::size_t>(ranks)};
}

}  // namespace

// What the groups are made with, after everybody has agreed to it.
int FullyShardedDataParallel::ShardGroupSize(ProcessGroup& group, const std::vector<ShardedUnit>& units,
                                             const FullyShardedDataParallelConfig& config) {
  const int size = config.shard_group_size != 0 ? config.shard_group_size : group.size();
  require_no_problem(group, ProblemOf(group, units, size));
  require_equal_parameters(group, {fmt::format("ZeRO stage {} with shards over {} ranks and a gradient divisor of {}",
                                               static_cast<int>(config.stage), size, config.gradient_divisor)});
  std::vector<std::string> descriptions;
  for (const auto& unit : units) {
    for (const auto& parameter : unit.parameters) {
      descriptions.push_back(fmt::format("{} in unit \"{}\"", description_of(parameter), unit.name));
    }
  }
  require_equal_parameters(group, descriptions);
  return size;
}

FullyShardedDataParallel::FullyShardedDataParallel(ProcessGroup& group, Compute& compute,
                                                   std::vector<ShardedUnit> units,
                                                   const FullyShardedDataParallelConfig& config)
    : group_(group),
      compute_(compute),
      config_(config),
      memory_(config.memory != nullptr ? *config.memory : own_memory_),
      groups_(group, ShardGroupSize(group, units, config), config.communicators) {
  // Made now, in the same order on all ranks.
  for (auto* each : {&groups_.shard(), &groups_.replicate()}) {
    if (each->size() > 1) each->comm();
  }
  const auto rank = static_cast<std::size_t>(groups_.shard().rank());
  for (auto& specs : units) {
    auto flat = FlatOf(specs, groups_.shard().size());
    auto& unit = units_.emplace_back(Unit{.specs = std::move(specs), .flat = std::move(flat)});
    const std::size_t all = unit.flat.count(), mine = unit.flat.shard_counts()[rank];
    if (shards(ZeroStage::parameters)) {
      unit.kept = Make(MemoryKind::parameters, mine, unit.dtype());
    } else {
      unit.full = Make(MemoryKind::parameters, all, unit.dtype());
    }
    if (unit.has_master()) unit.master = Make(MemoryKind::optimizer_state, mine, tuttiFloat32);
    if (!shards(ZeroStage::gradients)) unit.gradients = Make(MemoryKind::gradients, all, unit.dtype());
    if (shards(ZeroStage::gradients) || unit.has_master()) {
      unit.reduced = Make(MemoryKind::gradients, mine, tuttiFloat32);
    }
  }
  zero_grad();
}

FullyShardedDataParallel::~FullyShardedDataParallel() {
  try {
    compute_.join_communication();
  } catch (const Error&) {  // told by whoever waited for it; here nobody asks
  }
}

Buffer FullyShardedDataParallel::Make(MemoryKind kind, std::size_t count, tuttiDataType_t dtype) {
  return memory_.make(kind, compute_, {count}, dtype);
}

Tensor FullyShardedDataParallel::Mine(const Unit& unit, const Tensor& flat) const {
  return unit.flat.shard(flat, static_cast<std::size_t>(groups_.shard().rank()));
}

void FullyShardedDataParallel::initialize(std::size_t index,
                                          const std::function<void(std::size_t, const Tensor&)>& fill) {
  Unit& unit = units_[index];
  if (shards(ZeroStage::parameters)) unit.full = Make(MemoryKind::parameters, unit.flat.count(), unit.dtype());
  for (std::size_t i = 0; i < unit.specs.parameters.size(); ++i) fill(i, unit.flat.parameter(unit.full, i));
  group_.broadcast(unit.full, 0, compute_.stream());
  if (shards(ZeroStage::parameters)) compute_.copy(Mine(unit, unit.full), unit.kept, false);
  if (unit.has_master()) compute_.copy(Mine(unit, unit.full), unit.master, false);
  unit.initialized = true;
  unit.state = UnitState::whole;
  EndUse(unit);
}

void FullyShardedDataParallel::StartGather(Unit& unit) {
  if (!unit.initialized) {
    throw Error(tuttiInvalidUsage,
                fmt::format("unit \"{}\" has no values yet: initialize() it first", unit.specs.name));
  }
  if (shards(ZeroStage::parameters)) unit.full = Make(MemoryKind::parameters, unit.flat.count(), unit.dtype());
  compute_.fork_communication();
  groups_.shard().all_gather_v(KeptOf(unit), unit.flat.shard_counts(), unit.full, compute_.communication_stream());
  unit.state = UnitState::gathering;
}

void FullyShardedDataParallel::Join() { join_communication(compute_, {&groups_.shard(), &groups_.replicate()}); }

// Waits for what has been under way, and begins what is to be under way while a unit computes.
void FullyShardedDataParallel::Turn() {
  Join();
  for (auto& unit : units_) {
    if (unit.state == UnitState::gathering) unit.state = UnitState::whole;
  }
  for (auto* const unit : std::exchange(reducing_, {})) EndReduce(*unit);
  for (auto* const unit : std::exchange(to_reduce_, {})) StartReduce(*unit);
}

void FullyShardedDataParallel::Use(std::size_t index, std::size_t next) {
  Unit& unit = units_[index];
  if (unit.state == UnitState::sharded) StartGather(unit);  // nobody has fetched it: the first of a pass
  Turn();
  if (next < units_.size() && units_[next].state == UnitState::sharded) StartGather(units_[next]);
}

void FullyShardedDataParallel::EndUse(Unit& unit) {
  if (!shards(ZeroStage::parameters)) return;
  unit.full = {};
  unit.state = UnitState::sharded;
}

void FullyShardedDataParallel::pre_forward(std::size_t unit) { Use(unit, unit + 1); }
void FullyShardedDataParallel::post_forward(std::size_t unit) { EndUse(units_[unit]); }

void FullyShardedDataParallel::pre_backward(std::size_t index) {
  Unit& unit = units_[index];
  Use(index, index - 1);  // of the first: none
  // Its gradients of the micro-batch before, where there are no units between.
  while (std::ranges::count(reducing_, &unit) > 0 || std::ranges::count(to_reduce_, &unit) > 0) Turn();
  if (shards(ZeroStage::gradients)) {
    unit.gradients = Make(MemoryKind::gradients, unit.flat.count(), unit.dtype());
    compute_.zero(unit.gradients);
  }
  unit.in_backward = true;
}

void FullyShardedDataParallel::post_backward(std::size_t index) {
  Unit& unit = units_[index];
  unit.in_backward = false;
  unit.last_pass = sync_;
  if (sync_ || shards(ZeroStage::gradients)) to_reduce_.push_back(&unit);
  EndUse(unit);
}

void FullyShardedDataParallel::StartReduce(Unit& unit) {
  Tensor to = Mine(unit, unit.gradients);
  if (shards(ZeroStage::gradients)) {
    const bool directly = unit.fresh && !unit.has_master();
    if (!directly) unit.arrived = Make(MemoryKind::gradients, to.count(), unit.dtype());
    to = directly ? unit.reduced : unit.arrived;
  }
  compute_.fork_communication();
  groups_.shard().reduce_scatter_v(unit.gradients, unit.flat.shard_counts(), to, tuttiAvg,
                                   compute_.communication_stream());
  reducing_.push_back(&unit);
}

Tensor FullyShardedDataParallel::ReducedOf(const Unit& unit) const {
  return shards(ZeroStage::gradients) || unit.has_master() ? unit.reduced : Mine(unit, unit.gradients);
}

void FullyShardedDataParallel::EndReduce(Unit& unit) {
  if (unit.arrived.tensor().data != nullptr) {
    compute_.copy(unit.arrived, unit.reduced, !unit.fresh);
  } else if (!shards(ZeroStage::gradients) && unit.has_master()) {
    compute_.copy(Mine(unit, unit.gradients), unit.reduced, false);
  }
  unit.arrived = {};
  if (shards(ZeroStage::gradients)) unit.gradients = {};
  unit.fresh = false;
  if (!unit.last_pass) return;
  const Tensor grad = ReducedOf(unit);
  if (config_.gradient_divisor != 0 && config_.gradient_divisor != group_.size()) {
    compute_.scale(grad, static_cast<float>(group_.size()) / static_cast<float>(config_.gradient_divisor));
  }
  if (groups_.replicate().size() == 1 || grad.count() == 0) return;
  compute_.fork_communication();
  groups_.replicate().all_reduce(grad, grad, tuttiAvg, compute_.communication_stream());
}

void FullyShardedDataParallel::finish_gradients() {
  if (!sync_) {
    throw Error(tuttiInvalidUsage,
                "finish_gradients() was called while set_requires_gradient_sync(false) holds, so not all would be "
                "averaged");
  }
  while (!to_reduce_.empty() || !reducing_.empty()) Turn();
  Join();  // for the averages across replicas
}

void FullyShardedDataParallel::zero_grad() {
  if (!to_reduce_.empty() || !reducing_.empty()) {
    throw Error(tuttiInvalidUsage, "zero_grad() was called between a backward pass and finish_gradients()");
  }
  for (auto& unit : units_) {
    compute_.zero(shards(ZeroStage::gradients) ? unit.reduced : unit.gradients);
    unit.fresh = true;
  }
}

Tensor FullyShardedDataParallel::data(std::size_t index, std::size_t parameter) const {
  const Unit& unit = units_[index];
  if (unit.state != UnitState::whole) {
    throw Error(tuttiInvalidUsage,
                fmt::format("the parameters of unit \"{}\" are with their ranks: they are here from pre_forward() or "
                            "pre_backward() of it to the matching post",
                            unit.specs.name));
  }
  return unit.flat.parameter(unit.full, parameter);
}

Tensor FullyShardedDataParallel::grad(std::size_t index, std::size_t parameter) const {
  const Unit& unit = units_[index];
  if (!unit.in_backward && shards(ZeroStage::gradients)) {
    throw Error(tuttiInvalidUsage,
                fmt::format("the gradients of unit \"{}\" are there from pre_backward() to post_backward() of it only",
                            unit.specs.name));
  }
  return unit.flat.parameter(unit.gradients, parameter);
}

FullyShardedDataParallel::Shard FullyShardedDataParallel::shard(std::size_t index) const {
  const Unit& unit = units_[index];
  return {unit.has_master() ? unit.master : KeptOf(unit), ReducedOf(unit)};
}

void FullyShardedDataParallel::parameters_updated() {
  for (auto& unit : units_) {
    if (unit.has_master()) compute_.copy(unit.master, KeptOf(unit), false);
    unit.state = UnitState::sharded;
  }
}

}  // namespace tutti::parallel
