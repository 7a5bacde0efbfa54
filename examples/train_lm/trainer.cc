#include "trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "tutti/parallel/error.h"

namespace train_lm {
namespace {

using tutti::parallel::require_divisible;
using tutti::parallel::require_equal;

void require_positive(const char* what, int value) {
  if (value >= 1) return;
  throw tutti::parallel::Error(tuttiInvalidArgument, fmt::format("{} is {}; at least 1 is needed", what, value));
}

// Checks everything that must divide, before anything is created.
const TrainConfig& Checked(const TrainConfig& config, const ParallelState& state) {
  const auto tp = static_cast<std::size_t>(state.get_tensor_model_parallel_world_size());
  const auto pp = static_cast<std::size_t>(state.get_pipeline_model_parallel_world_size());
  const auto dp = static_cast<std::size_t>(state.get_data_parallel_world_size());
  const auto cp = static_cast<std::size_t>(state.get_context_parallel_world_size());
  const auto ep = static_cast<std::size_t>(state.get_expert_model_parallel_world_size());
  const auto& model = config.model;
  require_divisible("hidden", model.hidden, "heads", model.heads);
  require_divisible("heads", model.heads, "tensor_model_parallel_size", tp);
  require_divisible("heads", model.heads, "kv_heads", model.heads_of_keys());
  require_divisible("kv_heads", model.heads_of_keys(), "tensor_model_parallel_size", tp);
  require_divisible("layers", model.layers, "pipeline_model_parallel_size", pp);
  require_positive("virtual_stages", config.virtual_stages);
  require_divisible("layers", model.layers, "pipeline_model_parallel_size x virtual_stages",
                    pp * static_cast<std::size_t>(config.virtual_stages));
  require_divisible("batch", config.batch, "data_parallel_size", dp);
  require_divisible("a data-parallel rank's samples", config.batch / dp, "microbatches", config.microbatches);
  require_divisible("sequence", model.sequence, "context_parallel_size", cp);
  if (config.sequence_parallel) {
    require_divisible("a context-parallel rank's part of the sequence", model.sequence / cp,
                      "tensor_model_parallel_size", tp);
  }
  if (config.shard_group != 0) {
    require_divisible("data_parallel_size x context_parallel_size", dp * cp, "shard_group",
                      static_cast<std::size_t>(config.shard_group));
  }
  if (config.expert_shard_group != 0) {
    if (model.experts == 0) {
      require_equal("expert_shard_group", static_cast<std::size_t>(config.expert_shard_group),
                    "what a model without experts takes", 0);
    }
    require_divisible("expert_data_parallel_size",
                      static_cast<std::size_t>(state.get_expert_data_parallel_world_size()), "expert_shard_group",
                      static_cast<std::size_t>(config.expert_shard_group));
  }
  if (model.experts == 0 && ep > 1)
    require_equal("expert_model_parallel_size", ep, "what a model without experts takes", 1);
  if (model.experts == 0) return config;
  require_divisible("experts", model.experts, "expert_model_parallel_size", ep);
  // Otherwise the ranks of a tensor-parallel group would send the same tokens.
  if (tp > 1 && !config.sequence_parallel) {
    throw tutti::parallel::Error(
        tuttiInvalidArgument,
        "experts with tensor parallelism need --sequence-parallel, so that each rank has different tokens");
  }
  require_equal("expert_tensor_parallel_size", static_cast<std::size_t>(state.get_expert_tensor_parallel_world_size()),
                "what these experts take (they are not split)", 1);
  return config;
}

// Samples in a data-parallel rank's micro-batch.
std::size_t SamplesOf(const TrainConfig& config, const ParallelState& state) {
  return config.batch / static_cast<std::size_t>(state.get_data_parallel_world_size()) / config.microbatches;
}

tutti::parallel::ContextParallelConfig AttentionOf(const TrainConfig& config, const ParallelState& state) {
  const auto& model = config.model;
  return {.sequence = model.sequence,
          .batch = SamplesOf(config, state),
          .heads = model.heads / static_cast<std::size_t>(state.get_tensor_model_parallel_world_size()),
          .width = model.head_width(),
          .kv_heads = model.heads_of_keys() / static_cast<std::size_t>(state.get_tensor_model_parallel_world_size())};
}

// Chunk c of a stage is the model's chunk c * stages + stage.
std::vector<StageRange> RangesOf(const TrainConfig& config, const ParallelState& state) {
  const auto stages = static_cast<std::size_t>(state.get_pipeline_model_parallel_world_size());
  const auto stage = static_cast<std::size_t>(state.get_pipeline_model_parallel_rank());
  const auto groups = static_cast<std::size_t>(state.get_expert_model_parallel_world_size());
  const auto group = static_cast<std::size_t>(state.get_expert_model_parallel_rank());
  const std::size_t chunks = stages * static_cast<std::size_t>(config.virtual_stages);
  const std::size_t blocks = config.model.layers / chunks, experts = config.model.experts / groups;
  std::vector<StageRange> ranges;
  for (std::size_t chunk = stage; chunk < chunks; chunk += stages) {
    ranges.push_back({chunk * blocks, (chunk + 1) * blocks, group * experts, (group + 1) * experts});
  }
  return ranges;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, ParallelState& state, Math& math)
    : config_(Checked(config, state)),
      state_(state),
      math_(math),
      ranges_(RangesOf(config, state)),
      text_(config.text, config.model.sequence),
      parameters_(parameters_of(config.model, ranges_), config, state, math),
      attention_(state.get_ulysses_parallel_group(), state.get_ring_parallel_group(), math.attention(),
                 AttentionOf(config, state)),
      surroundings_{config_.model,
                    math_,
                    parameters_,
                    {state.get_tensor_model_parallel_group(), math.compute()},
                    attention_,
                    config.sequence_parallel,
                    SamplesOf(config, state),
                    state.get_expert_model_parallel_group(),
                    MakeDispatcher()},
      chunks_(MakeChunks()),
      pipeline_(state.get_pipeline_model_parallel_group(), Ends()),
      schedule_(tutti::parallel::get_schedule(config.schedule, state.get_pipeline_model_parallel_world_size(),
                                              static_cast<int>(config.microbatches), config.virtual_stages)) {
  parameters_.broadcast();
  parameters_.plan(actions());
}

tutti::parallel::MoEAlltoAllTokenDispatcher* Trainer::MakeDispatcher() {
  const auto& model = config_.model;
  if (model.experts == 0) return nullptr;
  return &dispatcher_.emplace(state_.get_expert_model_parallel_group(), math_.compute(),
                              tutti::parallel::TokenDispatcherConfig{
                                  .num_experts = model.experts, .topk = model.top_k, .hidden_size = model.hidden});
}

std::deque<ModelChunk> Trainer::MakeChunks() {
  std::deque<ModelChunk> chunks;
  for (const auto& range : ranges_) {
    chunks.emplace_back(surroundings_, range, config_.microbatches,
                        [this](int microbatch) { return Load(microbatch); });
  }
  return chunks;
}

std::vector<tutti::parallel::PipelineEnds> Trainer::Ends() const {
  std::vector<tutti::parallel::PipelineEnds> ends;
  for (const auto& chunk : chunks_) ends.push_back(chunk.ends());
  return ends;
}

Loaded Trainer::Load(int microbatch) {
  const std::size_t sequence = config_.model.sequence, batch = surroundings_.batch;
  const auto replica = static_cast<std::size_t>(state_.get_data_parallel_rank());
  const std::size_t first = (replica * config_.microbatches + static_cast<std::size_t>(microbatch)) * batch;
  std::vector<std::int32_t> ids(sequence * batch), targets(ids.size());
  for (std::size_t i = 0; i < batch; ++i) text_.sample(step_, first + i, ids.data() + i, targets.data() + i, batch);
  // Keeps this rank's positions. They ascend, so this works in place.
  const auto& positions = attention_.positions();
  for (std::size_t i = 0; i < positions.size() * batch; ++i) {
    const std::size_t from = positions[i / batch] * batch + i % batch;
    ids[i] = ids[from];
    targets[i] = targets[from];
  }
  auto& compute = math_.compute();
  Loaded loaded{Buffer(compute, {positions.size(), batch}, tuttiInt32),
                Buffer(compute, {positions.size() * batch}, tuttiInt32)};
  math_.compute().upload(ids.data(), loaded.ids);
  math_.compute().upload(targets.data(), loaded.targets);
  return loaded;
}

std::uint64_t Trainer::remote_choices() const {
  return std::accumulate(chunks_.begin(), chunks_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& chunk) { return sum + chunk.model().remote_choices(); });
}

double Trainer::step() {
  parameters_.zero_grad();
  std::vector<tutti::parallel::PipelineStep*> steps;
  for (auto& chunk : chunks_) {
    chunk.begin();
    steps.push_back(&chunk);
  }
  pipeline_.run(schedule_, steps, math_.compute().stream());
  buckets_sent_during_backward_ = parameters_.buckets_sent();
  parameters_.finish_gradients();
  ++step_;
  parameters_.adam({.learning_rate = config_.learning_rate, .step = static_cast<int>(step_)});
  return MeanLoss();
}

// The last stages have the loss; all ranks of a tensor-parallel group have the same.
double Trainer::MeanLoss() {
  double sum = 0;
  if (state_.is_pipeline_last_stage() && state_.get_tensor_model_parallel_rank() == 0) {
    for (std::size_t i = 0; i < config_.microbatches; ++i) sum += chunks_.back().model().loss(static_cast<int>(i));
  }
  const Tensor total(&sum, {1}, tuttiFloat64);
  state_.get_world_group().all_reduce(total, total, tuttiSum);
  return sum / static_cast<double>(config_.batch * config_.model.sequence);
}

}  // namespace train_lm
