#include "parameters.h"

#include <random>

namespace train_lm {
namespace {

// GPT-2's (Radford et al. 2019).
constexpr float kInitialDeviation = 0.02F;

std::vector<float> InitialValues(const ParameterSpec& spec) {
  const Tensor whole(static_cast<float*>(nullptr), spec.whole);
  std::vector<float> values(whole.count(), 1);
  if (spec.is_gain) return values;
  std::seed_seq seed(spec.name.begin(), spec.name.end());
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, kInitialDeviation);
  for (auto& value : values) value = normal(random);
  return values;
}

// This rank's part of a parameter, as it is at first.
Buffer InitialPart(const ParameterSpec& spec, const tutti::parallel::ProcessGroup& group, Compute& compute) {
  const auto size = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
  auto values = InitialValues(spec);
  const Tensor whole(values.data(), spec.whole);
  Shape shape = spec.whole;
  std::vector<float> part;
  if (spec.split != Split::none) {
    auto& dimension = spec.split == Split::rows ? shape.front() : shape.back();
    tutti::parallel::require_divisible(spec.name.c_str(), dimension, "tensor_model_parallel_size", size);
    dimension /= size;
  }
  if (spec.split == Split::columns) {
    for (std::size_t row = 0; row < whole.rows(); ++row) {
      const float* const begin = whole.floats() + row * whole.columns() + rank * shape.back();
      part.insert(part.end(), begin, begin + shape.back());
    }
  } else {
    const Tensor rows = spec.split == Split::rows ? whole.chunk(rank, size) : whole;
    part.assign(rows.floats(), rows.floats() + rows.count());
  }
  Buffer buffer(compute, shape);
  compute.upload(part.data(), buffer);
  return buffer;
}

}  // namespace

Parameters::Parameters(const std::vector<ParameterSpec>& specs, ParallelState& state, bool sequence_parallel,
                       Math& math)
    : state_(state), sequence_parallel_(sequence_parallel), math_(math) {
  auto& compute = math_.compute();
  std::vector<tutti::parallel::Parameter> parameters;
  for (const auto& spec : specs) {
    Buffer data = InitialPart(spec, state_.get_tensor_model_parallel_group(), compute);
    const Shape shape = data.tensor().shape;
    index_[spec.name] = entries_.size();
    parameters.push_back({spec.name, data});
    auto& entry = entries_.emplace_back(spec, std::move(data), Buffer(compute, shape), Buffer(compute, shape));
    compute.zero(entry.first_moment);
    compute.zero(entry.second_moment);
  }
  ddp_.emplace(state_.get_data_parallel_group(), compute, std::move(parameters));
  ddp_->broadcast_parameters();
}

void Parameters::mark_ready(const std::string& prefix) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].spec.name.starts_with(prefix)) ddp_->mark_ready(i);
  }
}

// Sums over the tensor-parallel group come after the average over the replicas, as in Megatron-Core's
// finalize_model_grads(): the order of the two does not matter, and no bucket waits for the other sum.
void Parameters::finish_gradients() {
  ddp_->finish_gradients();
  if (!sequence_parallel_) return;
  auto& group = state_.get_tensor_model_parallel_group();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].spec.is_gain) group.all_reduce(ddp_->grad(i), ddp_->grad(i), tuttiSum, math_.compute().stream());
  }
}

void Parameters::adam(const AdamStep& step) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto& entry = entries_[i];
    math_.adam(step, ddp_->grad(i), entry.first_moment, entry.second_moment, entry.data);
  }
}

}  // namespace train_lm
