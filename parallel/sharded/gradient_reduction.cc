#include "parallel/sharded/gradient_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tutti/parallel/error.h"

namespace tutti::parallel {

GradientReduction::GradientReduction(Compute& compute, MemoryAccount& memory, const std::vector<UnitLayout>& units,
                                     int divisor)
    : compute_(compute), memory_(memory), divisor_(divisor), places_(compute, memory) {
  for (const auto& layout : units) {
    auto& unit = units_.emplace_back(Unit{.layout = layout});
    if (layout.shards(ZeroStage::gradients)) {
      unit.place = places_.Assign(layout);
    } else {
      unit.gradients = Make(layout.count(), layout.dtype());
    }
    if (layout.shards(ZeroStage::gradients) || layout.has_master()) {
      unit.reduced = Make(layout.shard_count(), tuttiFloat32);
    }
  }
  Zero();
}

Buffer GradientReduction::Make(std::size_t count, tuttiDataType_t dtype) {
  return memory_.make(MemoryKind::gradients, compute_, {count}, dtype);
}

bool GradientReduction::UsesPlace(const Unit& unit, BackwardPass pass) {
  return pass == BackwardPass::weight && unit.layout.shards(ZeroStage::gradients);
}

Tensor GradientReduction::GradientsOf(const Unit& unit) const {
  return unit.in_place ? places_.Of(unit.layout, unit.place) : unit.gradients.tensor();
}

Tensor GradientReduction::ReducedOf(const Unit& unit) {
  const auto& layout = unit.layout;
  return layout.shards(ZeroStage::gradients) || layout.has_master() ? unit.reduced : layout.shard(unit.gradients);
}

void GradientReduction::Zero() {
  if (!idle()) throw Error(tuttiInvalidUsage, "zero_grad() was called between a backward pass and finish_gradients()");
  for (auto& unit : units_) {
    compute_.zero(unit.layout.shards(ZeroStage::gradients) ? unit.reduced : unit.gradients);
    unit.fresh = true;
  }
}

void GradientReduction::BeginInput(std::size_t index) {
  Unit& unit = units_[index];
  unit.in_first_part = true;
  if (unit.layout.shards(ZeroStage::gradients)) places_.Make();
}

void GradientReduction::EndInput(std::size_t index) {
  Unit& unit = units_[index];
  unit.in_first_part = false;
  ++unit.owed;
}

void GradientReduction::TakeOwed(std::size_t index) {
  Unit& unit = units_[index];
  if (unit.owed == 0) {
    throw Error(tuttiInvalidUsage, fmt::format("pre_backward_weight() of unit \"{}\" was called more often than "
                                               "post_backward_input() of it",
                                               unit.layout.name()));
  }
  --unit.owed;
}

bool GradientReduction::IsTaken(std::size_t index, BackwardPass pass) const {
  const Unit& unit = units_[index];
  // By the unit's gradients of the previous micro-batch, if no units are between, or another one's in its place.
  const auto is_in_the_way = [&](const Unit* other) {
    return other == &unit || (UsesPlace(unit, pass) && other->in_place && other->place == unit.place);
  };
  return std::ranges::any_of(reducing_, is_in_the_way) || std::ranges::any_of(waiting_, is_in_the_way);
}

void GradientReduction::Begin(std::size_t index, BackwardPass pass) {
  Unit& unit = units_[index];
  unit.in_place = UsesPlace(unit, pass);
  if (unit.layout.shards(ZeroStage::gradients)) {
    if (!unit.in_place) unit.gradients = Make(unit.layout.count(), unit.layout.dtype());
    compute_.zero(GradientsOf(unit));
  }
  unit.in_backward = true;
}

void GradientReduction::End(std::size_t index) {
  Unit& unit = units_[index];
  unit.in_backward = false;
  unit.last_pass = sync_;
  if (sync_ || unit.layout.shards(ZeroStage::gradients)) waiting_.push_back(&unit);
}

void GradientReduction::Advance() {
  for (auto* const unit : std::exchange(reducing_, {})) Finish(*unit);
  for (auto* const unit : std::exchange(waiting_, {})) Start(*unit);
}

void GradientReduction::Start(Unit& unit) {
  const auto& layout = unit.layout;
  const Tensor gradients = GradientsOf(unit);
  Tensor to = layout.shard(gradients);
  if (layout.shards(ZeroStage::gradients)) {
    const bool directly = unit.fresh && !layout.has_master();
    if (!directly) unit.arrived = Make(to.count(), layout.dtype());
    to = directly ? unit.reduced : unit.arrived;
  }
  compute_.fork_communication();
  layout.groups.shard().reduce_scatter_v(gradients, layout.flat.shard_counts(), to, tuttiAvg,
                                         compute_.communication_stream());
  reducing_.push_back(&unit);
}

void GradientReduction::Finish(Unit& unit) {
  const auto& layout = unit.layout;
  if (unit.arrived.tensor().data != nullptr) {
    compute_.copy(unit.arrived, unit.reduced, !unit.fresh);
  } else if (!layout.shards(ZeroStage::gradients) && layout.has_master()) {
    compute_.copy(layout.shard(unit.gradients), unit.reduced, false);
  }
  unit.arrived = {};
  if (layout.shards(ZeroStage::gradients)) unit.gradients = {};
  unit.fresh = false;
  if (!unit.last_pass) return;
  const Tensor grad = ReducedOf(unit);
  const int averaged = layout.all.size();  // the collectives compute the average over these
  if (divisor_ != averaged) compute_.scale(grad, static_cast<float>(averaged) / static_cast<float>(divisor_));
  auto& replicate = layout.groups.replicate();
  if (replicate.size() == 1 || grad.count() == 0) return;
  compute_.fork_communication();
  replicate.all_reduce(grad, grad, tuttiAvg, compute_.communication_stream());
}

void GradientReduction::RequireComplete() const {
  if (!sync_) {
    throw Error(tuttiInvalidUsage,
                "finish_gradients() was called after set_requires_gradient_sync(false), so not all gradients would be "
                "averaged");
  }
  const auto owing = std::ranges::find_if(units_, [](const Unit& unit) { return unit.owed > 0; });
  if (owing != units_.end()) {
    throw Error(tuttiInvalidUsage, fmt::format("finish_gradients() was called while {} backward_weight of unit \"{}\" "
                                               "{} to come",
                                               owing->owed, owing->layout.name(), owing->owed == 1 ? "is" : "are"));
  }
}

Tensor GradientReduction::grad(std::size_t index, std::size_t parameter) const {
  const Unit& unit = units_[index];
  const auto& layout = unit.layout;
  if (!layout.shards(ZeroStage::gradients)) return layout.flat.parameter(unit.gradients, parameter);
  if (unit.in_first_part) return layout.flat.parameter(places_.Of(layout, unit.place), parameter);
  if (!unit.in_backward) {
    throw Error(tuttiInvalidUsage,
                fmt::format("the gradients of unit \"{}\" exist only between its pre_backward() and post_backward(), "
                            "or its pre_backward_weight() and post_backward_weight()",
                            layout.name()));
  }
  return layout.flat.parameter(GradientsOf(unit), parameter);
}

}  // namespace tutti::parallel
