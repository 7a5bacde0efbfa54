#include "parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "sharded_parameters.h"

namespace train_lm {
namespace {

using tutti::parallel::MemoryKind;

// GPT-2's (Radford et al. 2019).
constexpr float kInitialDeviation = 0.02F;

std::vector<float> InitialValues(const ParameterSpec& spec) {
  const Tensor whole(static_cast<float*>(nullptr), spec.whole);
  std::vector<float> values(whole.count(), spec.initial == Initial::ones ? 1.0F : 0.0F);
  if (spec.initial == Initial::normal) {
    std::seed_seq seed(spec.name.begin(), spec.name.end());
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, kInitialDeviation);
    for (auto& value : values) value = normal(random);
  }
  return values;
}

void AddLinear(std::vector<ParameterSpec>& specs, const std::string& name, std::size_t inputs, std::size_t outputs,
               Split split, bool expert) {
  specs.push_back({.name = name + ".weight", .whole = {outputs, inputs}, .split = split, .expert = expert});
  specs.push_back({.name = name + ".bias",
                   .whole = {outputs},
                   .split = split == Split::rows ? Split::rows : Split::none,
                   .initial = Initial::zeros,
                   .expert = expert});
}

void AddNorm(std::vector<ParameterSpec>& specs, const std::string& name, std::size_t width) {
  specs.push_back({.name = name + ".gain", .whole = {width}, .initial = Initial::ones, .along_sequence = true});
  specs.push_back({.name = name + ".bias", .whole = {width}, .initial = Initial::zeros, .along_sequence = true});
}

}  // namespace

std::vector<ParameterSpec> parameters_of(const ModelConfig& model, const StageRange& range) {
  std::vector<ParameterSpec> specs;
  if (range.first_block == 0) {
    specs.push_back({.name = "embedding", .whole = {model.vocabulary, model.hidden}, .split = Split::rows});
    specs.push_back({.name = "positions", .whole = {model.sequence, model.hidden}, .along_sequence = true});
  }
  for (std::size_t block = range.first_block; block < range.last_block; ++block) {
    const auto name = fmt::format("block{}", block);
    AddNorm(specs, name + ".norm1", model.hidden);
    AddLinear(specs, name + ".qkv", model.hidden, model.mixed_columns(), Split::rows, false);
    AddLinear(specs, name + ".out", model.hidden, model.hidden, Split::columns, false);
    AddNorm(specs, name + ".norm2", model.hidden);
    if (model.experts == 0) {
      AddLinear(specs, name + ".up", model.hidden, model.feed_forward, Split::rows, false);
      AddLinear(specs, name + ".down", model.feed_forward, model.hidden, Split::columns, false);
      continue;
    }
    specs.push_back({.name = name + ".router", .whole = {model.experts, model.hidden}, .along_sequence = true});
    for (std::size_t expert = range.first_expert; expert < range.last_expert; ++expert) {
      AddLinear(specs, fmt::format("{}.expert{}.up", name, expert), model.hidden, model.feed_forward, Split::none,
                true);
      AddLinear(specs, fmt::format("{}.expert{}.down", name, expert), model.feed_forward, model.hidden, Split::none,
                true);
    }
  }
  if (range.last_block == model.layers) {
    AddNorm(specs, "norm", model.hidden);
    specs.push_back({.name = "head.weight", .whole = {model.vocabulary, model.hidden}, .split = Split::rows});
  }
  return specs;
}

std::vector<ParameterSpec> parameters_of(const ModelConfig& model, const std::vector<StageRange>& ranges) {
  std::vector<ParameterSpec> specs;
  for (std::size_t chunk = 0; chunk < ranges.size(); ++chunk) {
    for (auto& spec : parameters_of(model, ranges[chunk])) {
      spec.chunk = chunk;
      specs.push_back(std::move(spec));
    }
  }
  return specs;
}

std::string unit_of(const ParameterSpec& spec) {
  const auto& name = spec.name;
  if (name.starts_with("block")) return name.substr(0, name.find('.')) + (spec.expert ? ".experts" : "");
  return name.starts_with("norm.") || name.starts_with("head.") ? "head" : "embedding";
}

Shape part_shape(const ParameterSpec& spec, const ParallelState& state) {
  const auto size = static_cast<std::size_t>(state.get_tensor_model_parallel_world_size());
  Shape mine = spec.whole;
  if (spec.split == Split::none) return mine;
  auto& dimension = spec.split == Split::rows ? mine.front() : mine.back();
  tutti::parallel::require_divisible(spec.name.c_str(), dimension, "tensor_model_parallel_size", size);
  dimension /= size;
  return mine;
}

Part initial_part(const ParameterSpec& spec, const ParallelState& state) {
  const auto size = static_cast<std::size_t>(state.get_tensor_model_parallel_world_size());
  const auto rank = static_cast<std::size_t>(state.get_tensor_model_parallel_rank());
  Part part{part_shape(spec, state), {}};
  auto values = InitialValues(spec);
  const Tensor whole(values.data(), spec.whole);
  if (spec.split == Split::rows) {
    const Tensor rows = whole.chunk(rank, size);
    part.values.assign(rows.floats(), rows.floats() + rows.count());
  } else if (spec.split == Split::columns) {
    const std::size_t columns = part.shape.back();
    for (std::size_t row = 0; row < whole.rows(); ++row) {
      const float* const begin = whole.floats() + row * whole.columns() + rank * columns;
      part.values.insert(part.values.end(), begin, begin + columns);
    }
  } else {
    part.values = std::move(values);
  }
  return part;
}

Parameters::Parameters(const std::vector<ParameterSpec>& specs, const TrainConfig& config, ParallelState& state,
                       Math& math)
    : state_(state), math_(math), sequence_parallel_(config.sequence_parallel) {
  if (config.zero != 0) {
    sharded_ = std::make_unique<ShardedParameters>(specs, config, state, math, memory_);
    return;
  }
  auto& compute = math_.compute();
  std::vector<tutti::parallel::Parameter> dense, experts;
  for (const auto& spec : specs) {
    Entry entry{.spec = spec, .own = {}, .data = {}, .first_moment = {}, .second_moment = {}};
    const auto part = initial_part(spec, state_);
    entry.own = memory_.make(MemoryKind::parameters, compute, part.shape);
    compute.upload(part.values.data(), entry.own);
    entry.data = entry.own;
    for (auto* moment : {&entry.first_moment, &entry.second_moment}) {
      *moment = memory_.make(MemoryKind::optimizer_state, compute, entry.data.shape);
      compute.zero(*moment);
    }
    auto& list = spec.expert ? experts : dense;
    entry.index = list.size();
    list.push_back({spec.name, entry.data});
    const auto place = entries_.emplace(spec.name, std::move(entry)).first;
    units_[unit_of(spec)].push_back(&place->second);
  }
  // Ranks that have parts of the same samples are replicas, too.
  auto& replicas = state_.get_data_parallel_group(true);
  tutti::parallel::DistributedDataParallelConfig ddp;
  if (config.data_parallel == GradientExchange::parameter_server) ddp.servers = config.servers;
  ddp.memory = &memory_;
  if (config.bucket_bytes != 0) ddp.bucket_bytes = ddp.first_bucket_bytes = config.bucket_bytes;
  dense_ = std::make_unique<DistributedDataParallel>(replicas, compute, std::move(dense), ddp);
  // An expert sees the tokens of all ranks of its group, so its divisor is the number of replicas.
  ddp.gradient_divisor = replicas.size();
  experts_ = std::make_unique<DistributedDataParallel>(state_.get_expert_data_parallel_group(), compute,
                                                       std::move(experts), ddp);
}

Parameters::~Parameters() = default;

Tensor Parameters::data(const std::string& name) const {
  return sharded_ ? sharded_->data(name) : entries_.at(name).data;
}

Tensor Parameters::grad(const std::string& name) const {
  if (sharded_) return sharded_->grad(name);
  const auto& entry = entries_.at(name);
  return owner(entry).grad(entry.index);
}

void Parameters::plan(const std::vector<tutti::parallel::PipelineAction>& actions) {
  if (sharded_) sharded_->plan(actions);
}

void Parameters::begin_pass() {
  if (sharded_) sharded_->begin_pass();
}

void Parameters::in_forward(const std::string& unit, const std::function<void()>& compute) {
  if (sharded_) sharded_->pre_forward(unit);
  compute();
  if (sharded_) sharded_->post_forward(unit);
}

void Parameters::in_backward(const std::string& unit, const std::function<void()>& compute) {
  if (weight_grads_.deferring()) {
    if (sharded_) sharded_->pre_backward_input(unit);
    compute();
    if (sharded_) sharded_->post_backward_input(unit);
    put_off_.push_back({unit, weight_grads_.take()});
    return;
  }
  if (sharded_) sharded_->pre_backward(unit);
  sent_before_last_unit_ = buckets_sent();
  compute();
  MarkReady(unit);
  if (sharded_) sharded_->post_backward(unit);
}

void Parameters::backward_weight(const std::vector<PutOff>& units) {
  for (const auto& [unit, gradients] : units) {
    if (sharded_) sharded_->pre_backward_weight(unit);
    sent_before_last_unit_ = buckets_sent();
    for (const auto& gradient : gradients) gradient();
    MarkReady(unit);
    if (sharded_) sharded_->post_backward_weight(unit);
  }
}

tutti::parallel::LinearParameters Parameters::linear(const std::string& name) {
  return {data(name + ".weight"), data(name + ".bias"), grad(name + ".weight"), grad(name + ".bias"), &weight_grads_};
}

void Parameters::broadcast() {
  if (sharded_) return;  // all ranks initialized them alike
  dense_->broadcast_parameters();
  experts_->broadcast_parameters();
}

void Parameters::zero_grad() {
  if (sharded_) return sharded_->zero_grad();
  dense_->zero_grad();
  experts_->zero_grad();
}

void Parameters::sync(bool on) {
  if (sharded_) return sharded_->sync(on);
  using NoSync = DistributedDataParallel::NoSync;
  dense_waits_ = on ? nullptr : std::make_unique<NoSync>(*dense_);
  experts_wait_ = on ? nullptr : std::make_unique<NoSync>(*experts_);
}

void Parameters::MarkReady(const std::string& unit) {
  if (sharded_) return;
  for (const auto* const entry : units_.at(unit)) owner(*entry).mark_ready(entry->index);
}

// Sums over the tensor-parallel group come after the average over the replicas, as in Megatron-Core's
// finalize_model_grads(): the order of the two does not matter, and no bucket waits for the other sum.
void Parameters::finish_gradients() {
  if (sharded_) return sharded_->finish_gradients();
  dense_->finish_gradients();
  experts_->finish_gradients();
  if (!sequence_parallel_) return;
  auto& group = state_.get_tensor_model_parallel_group();
  for (const auto& [name, entry] : entries_) {
    if (!entry.spec.along_sequence || !owner(entry).updates(entry.index)) continue;
    group.all_reduce(grad(name), grad(name), tuttiSum, math_.compute().stream());
  }
}

void Parameters::adam(AdamStep step) {
  if (sharded_) return sharded_->adam(step);
  for (const auto& [name, entry] : entries_) {
    if (!owner(entry).updates(entry.index)) continue;
    math_.adam(step, grad(name), entry.first_moment, entry.second_moment, entry.data);
  }
  dense_->pull_parameters();
  experts_->pull_parameters();
}

std::size_t Parameters::DenseBytes(bool updated_only) const {
  std::size_t bytes = 0;
  for (const auto& [name, entry] : entries_) {
    if (!entry.spec.expert && (!updated_only || dense_->updates(entry.index))) bytes += entry.data.bytes();
  }
  return bytes;
}

std::map<std::string, std::uint64_t> Parameters::bytes_sent() const {
  return sharded_ ? sharded_->bytes_sent() : std::map<std::string, std::uint64_t>{};
}

}  // namespace train_lm
