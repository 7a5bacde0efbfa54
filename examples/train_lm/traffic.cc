#include "traffic.h"

#include <algorithm>

#include "parameters.h"
#include "tutti/parallel/pipeline.h"

namespace train_lm {
namespace {

constexpr std::uint64_t kFloat = sizeof(float);

StageRange WholeModel(const ModelConfig& model) { return {0, model.layers, 0, model.experts}; }
std::uint64_t CountOf(const Shape& shape) { return Tensor(static_cast<float*>(nullptr), shape).count(); }

// Sizes of the split, and of a micro-batch's activations.
struct Job {
  Job(const TrainConfig& config, int world_size)
      : config(config), layouts(tutti::parallel::layouts_of(config.split, world_size)) {
    const auto size = [&](const char* axis) { return static_cast<std::uint64_t>(layouts.dense.size(axis)); };
    tp = size("tp");
    dp = size("dp");
    pp = size("pp");
    cp = size("cp");
    shards = config.shard_group == 0 ? replicas() : static_cast<std::uint64_t>(config.shard_group);
    ulysses = static_cast<std::uint64_t>(config.split.ulysses_size);
    rows = config.batch * config.model.sequence / dp / cp / config.microbatches;
    chunks = pp * static_cast<std::uint64_t>(config.virtual_stages);
    activation = rows * config.model.hidden * kFloat;
    // Ranks that exchange heads have at least one head of keys and values each, as a copy if there are fewer.
    const auto exchanging = ulysses > 1 ? tp * ulysses : 1;
    keys =
        rows * std::max<std::uint64_t>(config.model.heads_of_keys(), exchanging) * config.model.head_width() * kFloat;
  }

  const TrainConfig& config;
  tutti::parallel::ModelParallelLayouts layouts;
  // A replica has all parameters: there is one for each rank of both data and context parallelism.
  std::uint64_t replicas() const { return dp * cp; }

  std::uint64_t tp, dp, pp, cp, ulysses;
  std::uint64_t chunks;      // of the model
  std::uint64_t shards;      // replicas that share parameters, gradients or the optimiser's state
  std::uint64_t rows;        // a replica's tokens in a micro-batch
  std::uint64_t activation;  // bytes of their activations
  std::uint64_t keys;        // bytes of their attention keys
};

// Bytes that all of n ranks together send to combine `bytes` of gradients. A parameter server sends as much as an
// all-reduce: n - 1 workers' gradients up, the parameters to n - 1 workers down.
std::uint64_t ExchangeBytes(GradientExchange exchange, std::uint64_t n, std::uint64_t bytes) {
  return (exchange == GradientExchange::broadcast ? n : 2) * (n - 1) * bytes;
}

// Bytes of one replica. Megatron-LM: two all-reduces forward and two backward in every block, one for the embedding and
// one for the head. With sequence parallelism each all-reduce is an all-gather and a reduce-scatter, and backward
// gathers the input of each column-parallel layer once more.
std::uint64_t TensorParallelBytes(const Job& job) {
  const auto& model = job.config.model;
  const bool sequence = job.config.sequence_parallel;
  const std::uint64_t half = (job.tp - 1) * job.activation;  // an all-gather, a reduce-scatter, half an all-reduce
  // Pairs of a column-parallel and a row-parallel layer: attention and perceptron.
  const std::uint64_t pairs = (model.experts == 0 ? 2 : 1) * model.layers;
  const std::uint64_t in_pairs = pairs * (sequence ? 5 : 4) * half;
  const std::uint64_t at_ends = (sequence ? 2 + 3 : 2 + 2) * half;  // embedding, head
  // The loss: maxima; sums and targets' logits.
  const std::uint64_t loss = 2 * (job.tp - 1) * 3 * job.rows * kFloat;
  return job.config.microbatches * (in_pairs + at_ends + loss);
}

// With sequence parallelism: sums of unsplit parameters' gradients, once where these parameters are updated, which is
// on every replica or the servers. With shards the sums come before the reduction, from ZeRO-2 on in every micro-batch.
std::uint64_t AlongSequenceBytes(const Job& job) {
  const auto& config = job.config;
  if (!config.sequence_parallel) return 0;
  std::uint64_t bytes = 0;
  for (const auto& spec : parameters_of(config.model, WholeModel(config.model))) {
    if (spec.along_sequence) bytes += 2 * (job.tp - 1) * CountOf(spec.whole) * kFloat;
  }
  const std::uint64_t places = config.data_parallel == GradientExchange::parameter_server ? 1 : job.replicas();
  const bool every_pass = config.zero >= 2 && job.shards > 1;
  return bytes * places * (every_pass ? config.microbatches : 1);
}

// Bytes of all parameters, or gradients. A rank of a tensor-parallel group has its part of split parameters, and all of
// the rest.
std::uint64_t DenseBytes(const Job& job) {
  std::uint64_t count = 0;
  for (const auto& spec : parameters_of(job.config.model, WholeModel(job.config.model))) {
    if (!spec.expert) count += CountOf(spec.whole) * (spec.split == Split::none ? job.tp : 1);
  }
  return count * kFloat;
}

// Bytes for the parameters of `replicas` ranks: all gradients once, or ZeRO's. ZeRO gathers parameters once a step
// (stage 3: twice a micro-batch, forward and backward), and reduces gradients once a step (from stage 2 on: once a
// micro-batch). With shards over a part of the ranks, gradients' shards are all-reduced across, once a step.
std::map<std::string, std::uint64_t> ReplicasBytes(const TrainConfig& config, const std::string& group,
                                                   std::uint64_t replicas, int shard_group, std::uint64_t bytes) {
  if (config.zero == 0) return {{group, ExchangeBytes(config.data_parallel, replicas, bytes)}};
  const std::uint64_t shards = shard_group == 0 ? replicas : static_cast<std::uint64_t>(shard_group);
  const std::uint64_t copies = replicas / shards;
  const std::uint64_t gathers = config.zero == 3 ? 2 * config.microbatches : 1;
  const std::uint64_t reduces = config.zero >= 2 ? config.microbatches : 1;
  const std::uint64_t among = (gathers + reduces) * copies * (shards - 1) * bytes;
  const std::uint64_t across = 2 * (copies - 1) * bytes;
  if (shards == 1 || copies == 1) return {{group, among + across}};
  return {{group, 0}, {group + " shard", among}, {group + " replicate", across}};
}

// Bytes of one replica, whose tensor-parallel ranks have some heads each. DeepSpeed-Ulysses: forward and backward
// exchange queries, keys, values and the output, and (n - 1) / n of each leaves its rank.
std::uint64_t UlyssesBytes(const Job& job) {
  const std::uint64_t exchanges = 2 * 2 * job.config.microbatches * job.config.model.layers;
  return exchanges * (job.activation + job.keys) * (job.ulysses - 1) / job.ulysses;
}
// Ring Attention: keys and values move n - 1 times forward and n - 1 times backward, where their gradients move, too.
std::uint64_t RingBytes(const Job& job) {
  const std::uint64_t passes = 6 * (job.cp / job.ulysses - 1);
  return passes * job.config.microbatches * job.config.model.layers * job.keys;
}

// Bytes of one replica: every micro-batch crosses every border between two chunks of the model forward and backward, on
// each rank of the tensor-parallel group (with sequence parallelism only with the rank's part). At the start, stages
// also agree on shapes.
std::uint64_t PipelineBytes(const Job& job) {
  if (job.pp == 1) return 0;  // a stage sends nothing to itself
  const std::uint64_t ranks = job.config.sequence_parallel ? 1 : job.tp;
  const std::uint64_t agreement = job.tp * job.chunks * (job.pp - 1) * tutti::parallel::negotiation_bytes();
  return 2 * (job.chunks - 1) * job.config.microbatches * job.activation * ranks + agreement;
}

// Each choice of another rank's expert sends a row there and one back, forward and backward. Before that, ranks
// exchange the number of rows for each expert, and sum up all experts' loads and the dropped rows.
std::uint64_t ExpertParallelBytes(const Job& job, std::uint64_t remote_choices) {
  const auto& model = job.config.model;
  const auto ep = static_cast<std::uint64_t>(job.layouts.expert.size("ep"));
  const std::uint64_t rows = 4 * remote_choices * model.hidden * kFloat;
  const std::uint64_t counts = (ep - 1) * model.experts * sizeof(std::int32_t);
  const std::uint64_t loads = 2 * (ep - 1) * (model.experts + 1) * sizeof(std::int64_t);
  const std::uint64_t groups = static_cast<std::uint64_t>(job.layouts.expert.size()) / ep;
  return rows + groups * (model.layers / job.pp) * job.config.microbatches * (counts + loads);
}

// Bytes of all experts, each counted once.
std::uint64_t ExpertBytes(const Job& job) {
  std::uint64_t count = 0;
  for (const auto& spec : parameters_of(job.config.model, WholeModel(job.config.model))) {
    if (spec.expert) count += CountOf(spec.whole);
  }
  return count * kFloat;
}

}  // namespace

std::map<std::string, std::uint64_t> expected_bytes(const TrainConfig& config, int world_size,
                                                    std::uint64_t remote_choices) {
  const Job job(config, world_size);
  auto bytes = ReplicasBytes(config, job.cp > 1 ? "cp-dp" : "dp", job.replicas(), config.shard_group, DenseBytes(job));
  bytes.merge(ReplicasBytes(config, "expert dp", static_cast<std::uint64_t>(job.layouts.expert.size("dp")),
                            config.expert_shard_group, ExpertBytes(job)));
  bytes.merge(std::map<std::string, std::uint64_t>{
      {"tp", job.replicas() * TensorParallelBytes(job) + AlongSequenceBytes(job)},
      {"pp", job.replicas() * PipelineBytes(job)},
      {"ulysses", job.replicas() * UlyssesBytes(job)},
      {"ring", job.replicas() * RingBytes(job)},
      {"expert ep", config.model.experts == 0 ? 0 : ExpertParallelBytes(job, remote_choices)}});
  return bytes;
}

std::uint64_t expected_bytes_of_rank(GradientExchange exchange, int ranks, std::uint64_t bytes, std::uint64_t updated) {
  const auto n = static_cast<std::uint64_t>(ranks);
  switch (exchange) {
    case GradientExchange::parameter_server: return (bytes - updated) + (n - 1) * updated;
    case GradientExchange::broadcast: return (n - 1) * bytes;
    default: return 2 * (n - 1) * bytes / n;
  }
}

}  // namespace train_lm
