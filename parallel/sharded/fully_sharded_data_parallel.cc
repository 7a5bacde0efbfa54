#include "tutti/parallel/fully_sharded_data_parallel.h"

#include <algorithm>
#include <utility>

#include "parallel/compute/joining.h"
#include "parallel/sharded/gradient_reduction.h"
#include "parallel/sharded/parameter_gathering.h"
#include "parallel/sharded/pass_order.h"
#include "parallel/sharded/sharding_agreement.h"
#include "parallel/sharded/unit_groups.h"
#include "parallel/sharded/unit_layout.h"

namespace tutti::parallel {
namespace {

std::vector<int> ChunksOf(const std::vector<ShardedUnit>& units) {
  std::vector<int> chunks(units.size());
  std::ranges::transform(units, chunks.begin(), &ShardedUnit::chunk);
  return chunks;
}

std::vector<UnitLayout> LayoutsOf(std::vector<ShardedUnit> units, ProcessGroup& group, UnitGroups& groups,
                                  ZeroStage stage) {
  std::vector<UnitLayout> layouts;
  for (auto& unit : units) {
    auto& all = group_of(unit, group);
    auto& shared_by = groups.Of(unit);
    layouts.emplace_back(std::move(unit), all, shared_by, stage);
  }
  return layouts;
}

}  // namespace

// Its parts, and what they do together: gathering and reducing share a stream, so their collectives end together.
struct FullyShardedDataParallel::Parts {
  Parts(ProcessGroup& group, Compute& compute, std::vector<ShardedUnit> units,
        const FullyShardedDataParallelConfig& config)
      : compute(compute),
        memory(config.memory != nullptr ? *config.memory : own_memory),
        order(ChunksOf(units)),
        groups(group, config),
        layouts(LayoutsOf(std::move(units), group, groups, config.stage)),
        parameters(compute, memory, layouts),
        gradients(compute, memory, layouts, config.gradient_divisor != 0 ? config.gradient_divisor : group.size()) {}
  ~Parts() { await_communication(compute); }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  void Join() { join_communication(compute, groups.communicating()); }
  // Waits for the collectives under way, and begins the reductions that overlap with a unit's computation.
  void Turn() {
    Join();
    parameters.EndGathers();
    gradients.Advance();
  }
  // Waits for the unit's parameters, and begins the all-gather of the next unit's, which overlaps with its computation.
  void Use(std::size_t unit, std::optional<std::size_t> next) {
    parameters.Start(unit);  // if it was not gathered ahead: the first of a pass
    Turn();
    GatherAhead(next);
  }
  // Not the unit in use, with which the next pass may begin: there is one copy of it, which is gathered again then.
  void GatherAhead(std::optional<std::size_t> unit) {
    if (unit) parameters.Start(*unit);
  }
  void BeginGradients(std::size_t unit, BackwardPass pass) {
    while (gradients.IsTaken(unit, pass)) Turn();
    gradients.Begin(unit, pass);
  }

  Compute& compute;
  MemoryAccount own_memory;
  MemoryAccount& memory;
  PassOrder order;
  UnitGroups groups;
  const std::vector<UnitLayout> layouts;
  ParameterGathering parameters;
  GradientReduction gradients;
};

FullyShardedDataParallel::FullyShardedDataParallel(ProcessGroup& group, Compute& compute,
                                                   std::vector<ShardedUnit> units,
                                                   const FullyShardedDataParallelConfig& config) {
  require_agreement(group, units, config);
  parts_ = std::make_unique<Parts>(group, compute, std::move(units), config);
}

FullyShardedDataParallel::~FullyShardedDataParallel() = default;

std::size_t FullyShardedDataParallel::units() const { return parts_->layouts.size(); }

void FullyShardedDataParallel::initialize(std::size_t unit,
                                          const std::function<void(std::size_t, const Tensor&)>& fill) {
  parts_->parameters.Initialize(unit, fill);
}

void FullyShardedDataParallel::set_next_pass(std::optional<std::size_t> first_unit) {
  parts_->order.SetNextPass(first_unit);
}

void FullyShardedDataParallel::pre_forward(std::size_t unit) { parts_->Use(unit, parts_->order.AfterForward(unit)); }

void FullyShardedDataParallel::post_forward(std::size_t unit) { parts_->parameters.EndUse(unit); }

void FullyShardedDataParallel::pre_backward(std::size_t unit) {
  parts_->Use(unit, parts_->order.AfterBackward(unit));
  parts_->BeginGradients(unit, BackwardPass::whole);
}

void FullyShardedDataParallel::post_backward(std::size_t unit) {
  parts_->gradients.End(unit);
  parts_->parameters.EndUse(unit);
}

void FullyShardedDataParallel::pre_backward_input(std::size_t unit) {
  parts_->Use(unit, parts_->order.AfterBackward(unit));
  parts_->gradients.BeginInput(unit);
}

void FullyShardedDataParallel::post_backward_input(std::size_t unit) {
  parts_->gradients.EndInput(unit);
  parts_->parameters.EndUse(unit);
}

void FullyShardedDataParallel::pre_backward_weight(std::size_t unit) {
  parts_->gradients.TakeOwed(unit);
  parts_->Turn();
  parts_->GatherAhead(parts_->order.AfterBackwardWeight(unit));
  parts_->BeginGradients(unit, BackwardPass::weight);
}

void FullyShardedDataParallel::post_backward_weight(std::size_t unit) { parts_->gradients.End(unit); }

Tensor FullyShardedDataParallel::data(std::size_t unit, std::size_t parameter) const {
  return parts_->parameters.data(unit, parameter);
}

Tensor FullyShardedDataParallel::grad(std::size_t unit, std::size_t parameter) const {
  return parts_->gradients.grad(unit, parameter);
}

void FullyShardedDataParallel::zero_grad() { parts_->gradients.Zero(); }

void FullyShardedDataParallel::set_requires_gradient_sync(bool on) { parts_->gradients.set_sync(on); }

void FullyShardedDataParallel::finish_gradients() {
  parts_->gradients.RequireComplete();
  while (!parts_->gradients.idle()) parts_->Turn();
  parts_->Join();  // for the averages across replicas
  parts_->gradients.EndStep();
}

FullyShardedDataParallel::Shard FullyShardedDataParallel::shard(std::size_t unit) const {
  return {parts_->parameters.shard(unit), parts_->gradients.shard(unit)};
}

void FullyShardedDataParallel::parameters_updated() { parts_->parameters.Update(); }

void FullyShardedDataParallel::gather(std::size_t unit, const Tensor& mine, const Tensor& whole) {
  const auto& layout = parts_->layouts[unit];
  parts_->Join();  // one collective at a time in a group
  layout.groups.shard().all_gather_v(mine, layout.flat.shard_counts(), whole, parts_->compute.stream());
}

Tensor FullyShardedDataParallel::shard_of(std::size_t unit, const Tensor& whole) const {
  const auto& layout = parts_->layouts[unit];
  require_shape("the whole unit", whole, {layout.count()});
  return layout.shard(whole);
}

FullyShardedDataParallel::UnitState FullyShardedDataParallel::state(std::size_t unit) const {
  return parts_->parameters.state(unit);
}

ZeroStage FullyShardedDataParallel::stage(std::size_t unit) const { return parts_->layouts[unit].stage; }

std::map<std::string, std::uint64_t> FullyShardedDataParallel::bytes_sent() const {
  return parts_->groups.bytes_sent();
}

const MemoryAccount& FullyShardedDataParallel::memory() const { return parts_->memory; }

}  // namespace tutti::parallel
