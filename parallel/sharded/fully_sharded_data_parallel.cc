#include "tutti/parallel/fully_sharded_data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "parallel/compute/joining.h"
#include "parallel/sharded/sharding_agreement.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

FlatParameter FlatOf(const ShardedUnit& unit, int ranks) {
  std::vector<Shape> shapes;
  for (const auto& parameter : unit.parameters) shapes.push_back(parameter.data.shape);
  return {std::move(shapes), static_cast<std::size_t>(ranks)};
}

}  // namespace

FullyShardedDataParallel::FullyShardedDataParallel(ProcessGroup& group, Compute& compute,
                                                   std::vector<ShardedUnit> units,
                                                   const FullyShardedDataParallelConfig& config)
    : group_(group),
      compute_(compute),
      config_(config),
      memory_(config.memory != nullptr ? *config.memory : own_memory_) {
  require_agreement(group, units, config);
  for (auto& specs : units) MakeUnit(std::move(specs));
  zero_grad();
}

// Communicators are made with the first unit that needs them, and so in the same order on all ranks.
HybridShardingGroups& FullyShardedDataParallel::GroupsOf(const ShardedUnit& unit) {
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

void FullyShardedDataParallel::MakeUnit(ShardedUnit specs) {
  auto& groups = GroupsOf(specs);
  auto flat = FlatOf(specs, groups.shard().size());
  const auto stage = groups.shard().size() > 1 ? config_.stage : ZeroStage::optimizer_state;
  auto& unit =
      units_.emplace_back(Unit{.specs = std::move(specs), .groups = groups, .flat = std::move(flat), .stage = stage});
  const std::size_t all = unit.flat.count();
  const std::size_t mine = unit.flat.shard_counts()[static_cast<std::size_t>(groups.shard().rank())];
  if (unit.shards(ZeroStage::parameters)) {
    unit.kept = Make(MemoryKind::parameters, mine, unit.dtype());
  } else {
    unit.full = Make(MemoryKind::parameters, all, unit.dtype());
  }
  if (unit.has_master()) unit.master = Make(MemoryKind::optimizer_state, mine, tuttiFloat32);
  if (unit.shards(ZeroStage::gradients)) {
    unit.place = placed_++ % places_.size();
    place_bytes_[unit.place] = std::max(place_bytes_[unit.place], all * size_of(unit.dtype()));
  } else {
    unit.gradients = Make(MemoryKind::gradients, all, unit.dtype());
  }
  if (unit.shards(ZeroStage::gradients) || unit.has_master()) {
    unit.reduced = Make(MemoryKind::gradients, mine, tuttiFloat32);
  }
}

FullyShardedDataParallel::~FullyShardedDataParallel() { await_communication(compute_); }

Buffer FullyShardedDataParallel::Make(MemoryKind kind, std::size_t count, tuttiDataType_t dtype) {
  return memory_.make(kind, compute_, {count}, dtype);
}

Tensor FullyShardedDataParallel::Mine(const Unit& unit, const Tensor& flat) const {
  return unit.flat.shard(flat, static_cast<std::size_t>(unit.groups.shard().rank()));
}

Tensor FullyShardedDataParallel::PlaceOf(const Unit& unit) const {
  return {places_[unit.place].tensor().data, {unit.flat.count()}, unit.dtype()};
}

void FullyShardedDataParallel::initialize(std::size_t index,
                                          const std::function<void(std::size_t, const Tensor&)>& fill) {
  Unit& unit = units_[index];
  if (unit.shards(ZeroStage::parameters)) unit.full = Make(MemoryKind::parameters, unit.flat.count(), unit.dtype());
  for (std::size_t i = 0; i < unit.specs.parameters.size(); ++i) fill(i, unit.flat.parameter(unit.full, i));
  group_of(unit.specs, group_).broadcast(unit.full, 0, compute_.stream());
  if (unit.shards(ZeroStage::parameters)) compute_.copy(Mine(unit, unit.full), unit.kept, false);
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
  if (unit.shards(ZeroStage::parameters)) unit.full = Make(MemoryKind::parameters, unit.flat.count(), unit.dtype());
  compute_.fork_communication();
  unit.groups.shard().all_gather_v(KeptOf(unit), unit.flat.shard_counts(), unit.full, compute_.communication_stream());
  unit.state = UnitState::gathering;
}

void FullyShardedDataParallel::Join() { join_communication(compute_, communicating_); }

// Waits for the collectives under way, and begins those that overlap with a unit's computation.
void FullyShardedDataParallel::Turn() {
  Join();
  for (auto& unit : units_) {
    if (unit.state == UnitState::gathering) unit.state = UnitState::whole;
  }
  for (auto* const unit : std::exchange(reducing_, {})) EndReduce(*unit);
  for (auto* const unit : std::exchange(to_reduce_, {})) StartReduce(*unit);
}

void FullyShardedDataParallel::Use(std::size_t index, std::optional<std::size_t> next) {
  Unit& unit = units_[index];
  if (unit.state == UnitState::sharded) StartGather(unit);  // not gathered ahead: the first of a pass
  Turn();
  GatherAhead(next);
}

// Not the unit in use, with which the next pass may begin: there is one copy of it, which is gathered again then.
void FullyShardedDataParallel::GatherAhead(std::optional<std::size_t> unit) {
  if (unit && units_[*unit].state == UnitState::sharded) StartGather(units_[*unit]);
}

void FullyShardedDataParallel::EndUse(Unit& unit) {
  if (!unit.shards(ZeroStage::parameters)) return;
  unit.full = {};
  unit.state = UnitState::sharded;
}

bool FullyShardedDataParallel::EndsForward(std::size_t unit) const {
  return unit + 1 == units_.size() || units_[unit + 1].specs.chunk != units_[unit].specs.chunk;
}

bool FullyShardedDataParallel::EndsBackward(std::size_t unit) const { return unit == 0 || EndsForward(unit - 1); }

std::optional<std::size_t> FullyShardedDataParallel::After(std::size_t unit) {
  return EndsForward(unit) ? NextPass() : unit + 1;
}

std::optional<std::size_t> FullyShardedDataParallel::Before(std::size_t unit) {
  return EndsBackward(unit) ? NextPass() : unit - 1;
}

void FullyShardedDataParallel::set_next_pass(std::optional<std::size_t> first_unit) {
  if (first_unit && *first_unit >= units_.size()) {
    throw Error(tuttiInvalidArgument,
                fmt::format("the next pass cannot begin with unit {} of {}", *first_unit, units_.size()));
  }
  next_pass_ = first_unit;
}

void FullyShardedDataParallel::pre_forward(std::size_t unit) { Use(unit, After(unit)); }
void FullyShardedDataParallel::post_forward(std::size_t unit) { EndUse(units_[unit]); }

void FullyShardedDataParallel::pre_backward(std::size_t unit) {
  Use(unit, Before(unit));
  BeginGradients(units_[unit], false);
}

void FullyShardedDataParallel::post_backward(std::size_t unit) {
  EndGradients(units_[unit]);
  EndUse(units_[unit]);
}

void FullyShardedDataParallel::pre_backward_input(std::size_t index) {
  Use(index, Before(index));
  Unit& unit = units_[index];
  unit.in_first_part = true;
  if (!unit.shards(ZeroStage::gradients) || places_[unit.place].tensor().data != nullptr) return;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i] = Make(MemoryKind::gradients, place_bytes_[i], tuttiUint8);
  }
}

void FullyShardedDataParallel::post_backward_input(std::size_t index) {
  Unit& unit = units_[index];
  unit.in_first_part = false;
  ++unit.owed;
  EndUse(unit);
}

void FullyShardedDataParallel::pre_backward_weight(std::size_t index) {
  Unit& unit = units_[index];
  if (unit.owed == 0) {
    throw Error(tuttiInvalidUsage, fmt::format("pre_backward_weight() of unit \"{}\" was called more often than "
                                               "post_backward_input() of it",
                                               unit.specs.name));
  }
  --unit.owed;
  Turn();
  if (EndsBackward(index)) GatherAhead(NextPass());
  BeginGradients(unit, true);
}

void FullyShardedDataParallel::post_backward_weight(std::size_t unit) { EndGradients(units_[unit]); }

void FullyShardedDataParallel::BeginGradients(Unit& unit, bool second_part) {
  const bool in_place = second_part && unit.shards(ZeroStage::gradients);
  // Its gradients of the previous micro-batch, if no units are between, or another one's in its place.
  const auto is_in_the_way = [&](const Unit* other) {
    return other == &unit || (in_place && other->in_place && other->place == unit.place);
  };
  while (std::ranges::any_of(reducing_, is_in_the_way) || std::ranges::any_of(to_reduce_, is_in_the_way)) Turn();
  unit.in_place = in_place;
  if (unit.shards(ZeroStage::gradients)) {
    if (!in_place) unit.gradients = Make(MemoryKind::gradients, unit.flat.count(), unit.dtype());
    compute_.zero(GradientsOf(unit));
  }
  unit.in_backward = true;
}

void FullyShardedDataParallel::EndGradients(Unit& unit) {
  unit.in_backward = false;
  unit.last_pass = sync_;
  if (sync_ || unit.shards(ZeroStage::gradients)) to_reduce_.push_back(&unit);
}

void FullyShardedDataParallel::StartReduce(Unit& unit) {
  const Tensor gradients = GradientsOf(unit);
  Tensor to = Mine(unit, gradients);
  if (unit.shards(ZeroStage::gradients)) {
    const bool directly = unit.fresh && !unit.has_master();
    if (!directly) unit.arrived = Make(MemoryKind::gradients, to.count(), unit.dtype());
    to = directly ? unit.reduced : unit.arrived;
  }
  compute_.fork_communication();
  unit.groups.shard().reduce_scatter_v(gradients, unit.flat.shard_counts(), to, tuttiAvg,
                                       compute_.communication_stream());
  reducing_.push_back(&unit);
}

Tensor FullyShardedDataParallel::ReducedOf(const Unit& unit) const {
  return unit.shards(ZeroStage::gradients) || unit.has_master() ? unit.reduced : Mine(unit, unit.gradients);
}

void FullyShardedDataParallel::EndReduce(Unit& unit) {
  if (unit.arrived.tensor().data != nullptr) {
    compute_.copy(unit.arrived, unit.reduced, !unit.fresh);
  } else if (!unit.shards(ZeroStage::gradients) && unit.has_master()) {
    compute_.copy(Mine(unit, unit.gradients), unit.reduced, false);
  }
  unit.arrived = {};
  if (unit.shards(ZeroStage::gradients)) unit.gradients = {};
  unit.fresh = false;
  if (!unit.last_pass) return;
  const Tensor grad = ReducedOf(unit);
  // The average that the collectives compute is over the unit's group.
  const int averaged = group_of(unit.specs, group_).size();
  const int divisor = config_.gradient_divisor != 0 ? config_.gradient_divisor : group_.size();
  if (divisor != averaged) compute_.scale(grad, static_cast<float>(averaged) / static_cast<float>(divisor));
  auto& replicate = unit.groups.replicate();
  if (replicate.size() == 1 || grad.count() == 0) return;
  compute_.fork_communication();
  replicate.all_reduce(grad, grad, tuttiAvg, compute_.communication_stream());
}

void FullyShardedDataParallel::finish_gradients() {
  if (!sync_) {
    throw Error(tuttiInvalidUsage,
                "finish_gradients() was called after set_requires_gradient_sync(false), so not all gradients would be "
                "averaged");
  }
  const auto owing = std::ranges::find_if(units_, [](const Unit& unit) { return unit.owed > 0; });
  if (owing != units_.end()) {
    throw Error(tuttiInvalidUsage, fmt::format("finish_gradients() was called while {} backward_weight of unit \"{}\" "
                                               "{} to come",
                                               owing->owed, owing->specs.name, owing->owed == 1 ? "is" : "are"));
  }
  while (!to_reduce_.empty() || !reducing_.empty()) Turn();
  Join();  // for the averages across replicas
  for (auto& place : places_) place = {};
}

void FullyShardedDataParallel::zero_grad() {
  if (!to_reduce_.empty() || !reducing_.empty()) {
    throw Error(tuttiInvalidUsage, "zero_grad() was called between a backward pass and finish_gradients()");
  }
  for (auto& unit : units_) {
    compute_.zero(unit.shards(ZeroStage::gradients) ? unit.reduced : unit.gradients);
    unit.fresh = true;
  }
}

Tensor FullyShardedDataParallel::data(std::size_t index, std::size_t parameter) const {
  const Unit& unit = units_[index];
  if (unit.state != UnitState::whole) {
    throw Error(tuttiInvalidUsage,
                fmt::format("the parameters of unit \"{}\" are sharded: they are gathered only between its "
                            "pre_forward(), pre_backward() or pre_backward_input() and the matching post",
                            unit.specs.name));
  }
  return unit.flat.parameter(unit.full, parameter);
}

Tensor FullyShardedDataParallel::grad(std::size_t index, std::size_t parameter) const {
  const Unit& unit = units_[index];
  if (!unit.shards(ZeroStage::gradients)) return unit.flat.parameter(unit.gradients, parameter);
  if (unit.in_first_part) return unit.flat.parameter(PlaceOf(unit), parameter);
  if (!unit.in_backward) {
    throw Error(tuttiInvalidUsage,
                fmt::format("the gradients of unit \"{}\" exist only between its pre_backward() and post_backward(), "
                            "or its pre_backward_weight() and post_backward_weight()",
                            unit.specs.name));
  }
  return unit.flat.parameter(GradientsOf(unit), parameter);
}

FullyShardedDataParallel::Shard FullyShardedDataParallel::shard(std::size_t index) const {
  const Unit& unit = units_[index];
  return {unit.has_master() ? unit.master : KeptOf(unit), ReducedOf(unit)};
}

std::map<std::string, std::uint64_t> FullyShardedDataParallel::bytes_sent() const {
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& sharers : sharers_) {
    for (const auto& [name, sent] : sharers.groups.bytes_sent()) bytes[name] += sent;
  }
  return bytes;
}

void FullyShardedDataParallel::parameters_updated() {
  for (auto& unit : units_) {
    if (unit.has_master()) compute_.copy(unit.master, KeptOf(unit), false);
    unit.state = UnitState::sharded;
  }
}

}  // namespace tutti::parallel
