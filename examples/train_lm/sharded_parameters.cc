#include "sharded_parameters.h"

namespace train_lm {

using tutti::parallel::MemoryKind;
using tutti::parallel::ZeroStage;

ShardedParameters::ShardedParameters(const std::vector<ParameterSpec>& specs, const TrainConfig& config,
                                     ParallelState& state, Math& math, tutti::parallel::MemoryAccount& memory)
    : state_(state),
      math_(math),
      sequence_parallel_(config.sequence_parallel),
      fsdp_(state.get_data_parallel_group(true), math.compute(), UnitsOf(specs, config),
            {.stage = static_cast<ZeroStage>(config.zero),
             .shard_group_size = config.shard_group,
             .memory = &memory,
             .communicators = state.config()}) {
  std::size_t first = 0;  // of the unit, in specs
  for (std::size_t unit = 0; unit < fsdp_.units(); ++unit) {
    std::size_t parameters = 0;
    fsdp_.initialize(unit, [&](std::size_t index, const Tensor& values) {
      math_.compute().upload(initial_part(specs[first + index], state_).values.data(), values);
      ++parameters;
    });
    first += parameters;
    const auto moment = [&] {
      Buffer zeros = memory.make(MemoryKind::optimizer_state, math_.compute(), fsdp_.shard(unit).data.shape);
      math_.compute().zero(zeros);
      return zeros;
    };
    moments_.emplace_back(moment(), moment());
  }
}

std::vector<tutti::parallel::ShardedUnit> ShardedParameters::UnitsOf(const std::vector<ParameterSpec>& specs,
                                                                     const TrainConfig& config) {
  std::vector<tutti::parallel::ShardedUnit> units;
  for (const auto& spec : specs) {
    const auto name = unit_of(spec);
    if (units_.emplace(name, units.size()).second) {
      auto& unit = units.emplace_back();
      unit.name = name;
      unit.chunk = static_cast<int>(spec.chunk);
      if (spec.chunk == chunks_.size()) chunks_.emplace_back(units.size() - 1, units.size() - 1);
      chunks_.back().second = units.size() - 1;
      if (spec.expert) {
        unit.group = &state_.get_expert_data_parallel_group();
        unit.shard_group_size = config.expert_shard_group;
      }
    }
    auto& parameters = units.back().parameters;
    const Shape shape = part_shape(spec, state_);
    entries_.emplace(spec.name, Entry{units.size() - 1, parameters.size(), shape, spec.along_sequence});
    parameters.push_back({spec.name, Tensor(static_cast<float*>(nullptr), shape)});
  }
  return units;
}

Tensor ShardedParameters::data(const std::string& name) const {
  const auto& entry = entries_.at(name);
  return fsdp_.data(entry.unit, entry.index);
}

Tensor ShardedParameters::grad(const std::string& name) const {
  const auto& entry = entries_.at(name);
  if (in_backward_ != entry.unit) return {static_cast<float*>(nullptr), entry.shape};
  return fsdp_.grad(entry.unit, entry.index);
}

void ShardedParameters::plan(const std::vector<tutti::parallel::PipelineAction>& actions) {
  using tutti::parallel::PipelinePass;
  first_units_.clear();
  for (const auto& action : actions) {
    const auto& [first, last] = chunks_[static_cast<std::size_t>(action.chunk)];
    first_units_.push_back(action.pass == PipelinePass::backward_weight ? std::nullopt
                           : action.pass == PipelinePass::forward       ? std::optional(first)
                                                                        : std::optional(last));
  }
}

void ShardedParameters::zero_grad() {
  fsdp_.zero_grad();
  passes_ = 0;
}

void ShardedParameters::begin_pass() {
  ++passes_;
  fsdp_.set_next_pass(passes_ < first_units_.size() ? first_units_[passes_] : std::nullopt);
}

void ShardedParameters::pre_backward(const std::string& unit) {
  in_backward_ = units_.at(unit);
  fsdp_.pre_backward(*in_backward_);
}

void ShardedParameters::post_backward(const std::string& unit) {
  SumAlongSequence(units_.at(unit));
  in_backward_.reset();
  fsdp_.post_backward(units_.at(unit));
}

void ShardedParameters::pre_backward_input(const std::string& unit) {
  in_backward_ = units_.at(unit);
  fsdp_.pre_backward_input(*in_backward_);
}

void ShardedParameters::post_backward_input(const std::string& unit) {
  in_backward_.reset();
  fsdp_.post_backward_input(units_.at(unit));
}

void ShardedParameters::post_backward_weight(const std::string& unit) {
  SumAlongSequence(units_.at(unit));
  fsdp_.post_backward_weight(units_.at(unit));
}

void ShardedParameters::SumAlongSequence(std::size_t unit) {
  // Gradients that stay here are summed once, in the step's last pass.
  if (!sequence_parallel_ || (!last_pass_ && fsdp_.stage(unit) < ZeroStage::gradients)) return;
  auto& group = state_.get_tensor_model_parallel_group();
  for (const auto& [name, entry] : entries_) {
    if (entry.unit != unit || !entry.along_sequence) continue;
    const Tensor grad = fsdp_.grad(entry.unit, entry.index);
    group.all_reduce(grad, grad, tuttiSum, math_.compute().stream());
  }
}

void ShardedParameters::sync(bool on) {
  last_pass_ = on;
  fsdp_.set_requires_gradient_sync(on);
}

void ShardedParameters::adam(const AdamStep& step) {
  for (std::size_t unit = 0; unit < fsdp_.units(); ++unit) {
    const auto [data, grad] = fsdp_.shard(unit);
    const auto& [first, second] = moments_[unit];
    math_.adam(step, grad, first, second, data);
  }
  fsdp_.parameters_updated();
}

}  // namespace train_lm
