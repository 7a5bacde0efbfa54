#include "parallel/sharded/parameter_gathering.h"

#include <fmt/format.h>

#include "tutti/parallel/error.h"

namespace tutti::parallel {

ParameterGathering::ParameterGathering(Compute& compute, MemoryAccount& memory, const std::vector<UnitLayout>& units)
    : compute_(compute), memory_(memory) {
  for (const auto& layout : units) {
    auto& unit = units_.emplace_back(Unit{.layout = layout});
    if (layout.shards(ZeroStage::parameters)) {
      unit.kept = memory_.make(MemoryKind::parameters, compute_, {layout.shard_count()}, layout.dtype());
    } else {
      MakeFull(unit);
    }
    if (layout.has_master()) {
      unit.master = memory_.make(MemoryKind::optimizer_state, compute_, {layout.shard_count()}, tuttiFloat32);
    }
  }
}

void ParameterGathering::MakeFull(Unit& unit) {
  unit.full = memory_.make(MemoryKind::parameters, compute_, {unit.layout.count()}, unit.layout.dtype());
}

Tensor ParameterGathering::KeptOf(const Unit& unit) {
  return unit.layout.shards(ZeroStage::parameters) ? unit.kept : unit.layout.shard(unit.full);
}

void ParameterGathering::Initialize(std::size_t index, const std::function<void(std::size_t, const Tensor&)>& fill) {
  Unit& unit = units_[index];
  const auto& layout = unit.layout;
  if (layout.shards(ZeroStage::parameters)) MakeFull(unit);
  for (std::size_t i = 0; i < layout.specs.parameters.size(); ++i) fill(i, layout.flat.parameter(unit.full, i));
  layout.all.broadcast(unit.full, 0, compute_.stream());
  if (layout.shards(ZeroStage::parameters)) compute_.copy(layout.shard(unit.full), unit.kept, false);
  if (layout.has_master()) compute_.copy(layout.shard(unit.full), unit.master, false);
  unit.initialized = true;
  unit.state = UnitState::whole;
  EndUse(index);
}

void ParameterGathering::Start(std::size_t index) {
  Unit& unit = units_[index];
  if (unit.state != UnitState::sharded) return;
  const auto& layout = unit.layout;
  if (!unit.initialized) {
    throw Error(tuttiInvalidUsage, fmt::format("unit \"{}\" has no values yet: initialize() it first", layout.name()));
  }
  if (layout.shards(ZeroStage::parameters)) MakeFull(unit);
  compute_.fork_communication();
  layout.groups.shard().all_gather_v(KeptOf(unit), layout.flat.shard_counts(), unit.full,
                                     compute_.communication_stream());
  unit.state = UnitState::gathering;
}

void ParameterGathering::EndGathers() {
  for (auto& unit : units_) {
    if (unit.state == UnitState::gathering) unit.state = UnitState::whole;
  }
}

void ParameterGathering::EndUse(std::size_t index) {
  Unit& unit = units_[index];
  if (!unit.layout.shards(ZeroStage::parameters)) return;
  unit.full = {};
  unit.state = UnitState::sharded;
}

void ParameterGathering::Update() {
  for (auto& unit : units_) {
    if (unit.layout.has_master()) compute_.copy(unit.master, KeptOf(unit), false);
    unit.state = UnitState::sharded;
  }
}

Tensor ParameterGathering::data(std::size_t index, std::size_t parameter) const {
  const Unit& unit = units_[index];
  if (unit.state != UnitState::whole) {
    throw Error(tuttiInvalidUsage,
                fmt::format("the parameters of unit \"{}\" are sharded: they are gathered only between its "
                            "pre_forward(), pre_backward() or pre_backward_input() and the matching post",
                            unit.layout.name()));
  }
  return unit.layout.flat.parameter(unit.full, parameter);
}

Tensor ParameterGathering::shard(std::size_t index) const {
  const Unit& unit = units_[index];
  return unit.layout.has_master() ? unit.master : KeptOf(unit);
}

}  // namespace tutti::parallel
