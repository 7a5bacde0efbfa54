#include "sharded_parameters.h"

namespace train_lm {

using tutti::parallel::MemoryKind;
using tutti::parallel::ZeroStage;

std::string unit_of(const std::string& parameter) {
  if (parameter.starts_with("block")) return parameter.substr(0, parameter.find('.'));
  return parameter.starts_with("norm.") || parameter.starts_with("head.") ? "head" : "embedding";
}

ShardedParameters::ShardedParameters(const std::vector<ParameterSpec>& specs, const TrainConfig& config,
                                     ParallelState& state, Math& math, tutti::parallel::MemoryAccount& memory)
    : state_(state),
      math_(math),
      sequence_parallel_(config.sequence_parallel),
      every_pass_(config.zero >= static_cast<int>(ZeroStage::gradients)),
      fsdp_(state.get_data_parallel_group(true), math.compute(), UnitsOf(specs),
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

std::vector<tutti::parallel::ShardedUnit> ShardedParameters::UnitsOf(const std::vector<ParameterSpec>& specs) {
  std::vector<tutti::parallel::ShardedUnit> units;
  for (const auto& spec : specs) {
    const auto unit = unit_of(spec.name);
    if (units_.emplace(unit, units.size()).second) units.push_back({unit, {}});
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
  if (in_backward_ == nullptr) return {static_cast<float*>(nullptr), entry.shape};
  return fsdp_.grad(entry.unit, entry.index);
}

void ShardedParameters::pre_backward(const std::string& unit) {
  const auto place = units_.find(unit);
  fsdp_.pre_backward(place->second);
  in_backward_ = &place->first;
}

void ShardedParameters::post_backward(const std::string& unit) {
  const std::size_t index = units_.at(unit);
  if (sequence_parallel_ && (every_pass_ || last_pass_)) {
    auto& group = state_.get_tensor_model_parallel_group();
    for (const auto& [name, entry] : entries_) {
      if (entry.unit != index || !entry.along_sequence) continue;
      group.all_reduce(grad(name), grad(name), tuttiSum, math_.compute().stream());
    }
  }
  in_backward_ = nullptr;
  fsdp_.post_backward(index);
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
