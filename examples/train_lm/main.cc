// Trains a small language model on text that every Debian machine has, split as the flags say. One process is one rank:
//
//   train_lm --steps 200                                               on one rank
//   examples/run.sh 8 train_lm --tensor 2 --pipeline 2                 on eight: the rest is data-parallel
//   mpirun, torchrun and Slurm can also start it (docs/running.md)
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include "memory.h"
#include "traffic.h"
#include "trainer.h"
#include "tutti/parallel/error.h"

namespace train_lm {
namespace {

using tutti::parallel::check;
using Comm = std::unique_ptr<tuttiComm, decltype(&tuttiCommDestroy)>;

struct Options {
  TrainConfig train;
  std::string algorithm;
};

void Describe(CLI::App& app, Options& options) {
  auto& train = options.train;
  auto& model = train.model;
  const std::map<std::string, GradientExchange> exchanges{{"all-reduce", GradientExchange::all_reduce},
                                                          {"parameter-server", GradientExchange::parameter_server},
                                                          {"broadcast", GradientExchange::broadcast}};
  app.add_option("--tensor", train.split.tensor_model_parallel_size, "number of tensor-parallel ranks");
  app.add_option("--pipeline", train.split.pipeline_model_parallel_size, "number of pipeline stages");
  app.add_option("--context", train.split.context_parallel_size,
                 "context-parallel ranks: each has a part of every sequence, and attention is over a ring of them");
  app.add_option(
      "--ulysses", train.split.ulysses_size,
      "number of context-parallel ranks that exchange heads; the ring runs across them (all: Ulysses alone)");
  app.add_option("--expert", train.split.expert_model_parallel_size,
                 "number of expert-parallel ranks, a part of the data-parallel ranks");
  app.add_option("--expert-tensor", train.split.expert_tensor_parallel_size,
                 "number of ranks that an expert is split over; only 1 is supported");
  app.add_option("--data", train.split.data_parallel_size,
                 "number of data-parallel ranks; default: the remaining ranks of the world");
  app.add_option("--data-parallel", train.data_parallel,
                 "how gradients are combined: all-reduce, parameter-server or broadcast")
      ->transform(CLI::CheckedTransformer(exchanges));
  app.add_option("--servers", train.servers,
                 "number of data-parallel ranks that hold the parameters, with parameter-server")
      ->check(CLI::PositiveNumber);
  app.add_option("--order", train.split.order, "order of the axes of ranks, the fastest axis first");
  app.add_flag("--sequence-parallel", train.sequence_parallel, "split the sequence between tensor-parallel regions");
  auto* const zero =
      app.add_option(
             "--zero", train.zero,
             "what data-parallel ranks shard: the optimiser's state (1), also gradients (2), also parameters (3)")
          ->check(CLI::Range(0, 3));
  app.add_option("--shard-group", train.shard_group,
                 "number of ranks that share one copy; default: all data-parallel ranks")
      ->check(CLI::PositiveNumber)
      ->needs(zero);
  app.add_option("--expert-shard-group", train.expert_shard_group,
                 "number of ranks with the same experts that share one copy; default: all")
      ->check(CLI::PositiveNumber)
      ->needs(zero);
  app.add_option("--schedule", train.schedule, "GPipe, 1F1B, Interleaved1F1B or ZB-H1");
  app.add_option("--virtual-stages", train.virtual_stages, "model chunks per pipeline stage, for Interleaved1F1B");
  app.add_option("--microbatches", train.microbatches, "number of microbatches of a data-parallel rank's samples");
  app.add_option("--batch", train.batch, "samples per step, over all ranks");
  app.add_option("--steps", train.steps);
  app.add_option("--learning-rate", train.learning_rate);
  app.add_option("--layers", model.layers);
  app.add_option("--hidden", model.hidden);
  app.add_option("--heads", model.heads);
  app.add_option("--kv-heads", model.kv_heads,
                 "number of key and value heads, each for several query heads; default: the number of heads")
      ->check(CLI::PositiveNumber);
  app.add_option("--sequence", model.sequence, "bytes of text per sample");
  app.add_option("--feed-forward", model.feed_forward);
  app.add_option("--experts", model.experts, "number of experts of the mixture in every block");
  app.add_option("--top-k", model.top_k, "number of experts per token");
  app.add_option("--text", train.text, "folder with text files");
  app.add_option("--losses", train.losses, "file to write the losses to, one per line");
  app.add_option("--bucket-bytes", train.bucket_bytes, "bytes of gradients that are sent together; default: PyTorch's");
  app.add_flag("--deterministic", train.deterministic, "sum in the order of ranks (docs/numerics.md)");
  app.add_flag(
      "--bytes", train.bytes,
      "print the bytes that all ranks sent in the last step, next to the formulas (use with --algorithm ring)");
  app.add_flag("--memory", train.memory, "print the peak memory of each rank's training state, next to the formulas");
  app.add_option("--algorithm", options.algorithm, "algorithm of all collectives; default: chosen by the library");
}

tuttiConfig_t ConfigOf(const Options& options) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (options.train.deterministic) config.deterministic = 1;
  if (!options.algorithm.empty()) config.algorithm = options.algorithm.c_str();
  return config;
}

// The baselines are algorithms of the library, selected only in the data-parallel groups.
void Configure(ParallelState& state, GradientExchange exchange, tuttiConfig_t config) {
  if (exchange == GradientExchange::all_reduce) return;
  config.algorithm = exchange == GradientExchange::parameter_server ? "parameter_server" : "all_to_all_broadcast";
  state.get_data_parallel_group(true).configure(config);
  state.get_expert_data_parallel_group().configure(config);
}

// Joins as torchrun and similar launchers specify, or alone.
Comm Join(tuttiConfig_t config) {
  tuttiComm_t comm = nullptr;
  if (std::getenv("WORLD_SIZE") != nullptr) {
    check(tuttiCommInitEnv(&comm, &config));
  } else {
    tuttiUniqueId id;
    check(tuttiGetUniqueId(&id));
    check(tuttiCommInitRankConfig(&comm, 1, id, 0, &config));
  }
  return {comm, &tuttiCommDestroy};
}

// Compares the bytes that a step sends with the formulas.
class Traffic {
 public:
  Traffic(const TrainConfig& config, ParallelState& state, const Trainer& trainer)
      : config_(config), state_(state), trainer_(trainer), before_(Now()) {}

  // Prints the bytes sent since construction: by group, for all ranks together; and each rank's bytes for the dense
  // layers' gradients, unless those are sharded.
  void Print() const {
    auto counts = Now();
    std::vector<std::uint64_t> sent, expected_by_rank;
    if (config_.zero == 0) {
      const auto& parameters = trainer_.parameters();
      const auto& replicas = state_.get_data_parallel_group(true);
      sent = ByRank(counts.at(replicas.name()) - before_.at(replicas.name()));
      expected_by_rank = ByRank(expected_bytes_of_rank(config_.data_parallel, replicas.size(), parameters.dense_bytes(),
                                                       parameters.updated_dense_bytes()));
    }
    for (auto& [name, count] : counts) count = Total(count - (before_.contains(name) ? before_.at(name) : 0));
    const auto early = Total(trainer_.buckets_sent_during_backward()), buckets = Total(trainer_.buckets());
    const auto earlier = Total(trainer_.parameters().buckets_sent_before_last_unit());
    auto& world = state_.get_world_group();
    if (world.rank() != 0) return;
    for (const auto& [group, expected] : expected_bytes(config_, world.size(), counts.at(kChoices))) {
      fmt::print("bytes {}: sent {}, by the formula {}\n", group, counts.at(group), expected);
    }
    for (std::size_t rank = 0; rank < sent.size(); ++rank) {
      fmt::print("rank {} dp: sent {}, by the formula {}\n", rank, sent[rank], expected_by_rank[rank]);
    }
    if (buckets == 0) return;
    fmt::print("buckets: {} of {} sent before the backward pass ended, {} before its last unit\n", early, buckets,
               earlier);
  }

 private:
  static constexpr const char* kChoices = "remote choices";

  // Includes all names on every rank.
  std::map<std::string, std::uint64_t> Now() const {
    auto counts = state_.bytes_sent();
    counts.erase("world");
    counts.merge(trainer_.parameters().bytes_sent());
    for (const char* group : {"tp", "dp", "cp-dp", "pp", "ulysses", "ring", "expert ep", "expert dp"})
      counts.try_emplace(group, 0);
    counts[kChoices] = trainer_.remote_choices();
    return counts;
  }
  std::uint64_t Total(std::uint64_t mine) const {
    const Tensor total(&mine, {1}, tuttiUint64);
    state_.get_world_group().all_reduce(total, total, tuttiSum);
    return mine;
  }
  std::vector<std::uint64_t> ByRank(std::uint64_t mine) const {
    auto& world = state_.get_world_group();
    std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
    world.all_gather(Tensor(&mine, {1}, tuttiUint64), Tensor(all.data(), {all.size()}, tuttiUint64));
    return all;
  }

  const TrainConfig& config_;
  ParallelState& state_;
  const Trainer& trainer_;
  std::map<std::string, std::uint64_t> before_;
};

// Prints this rank's memory.
void PrintMemory(const TrainConfig& config, ParallelState& state, const Trainer& trainer) {
  const auto expected = expected_memory(config, trainer.ranges(), trainer.actions(), state);
  const auto print = [&](const char* what, tutti::parallel::MemoryKind kind, std::uint64_t formula) {
    fmt::print("memory of rank {}, {}: at most {}, by the formula {}\n", state.get_world_group().rank(), what,
               trainer.parameters().memory().peak(kind), formula);
  };
  print("parameters", tutti::parallel::MemoryKind::parameters, expected.parameters);
  print("gradients", tutti::parallel::MemoryKind::gradients, expected.gradients);
  print("optimiser's state", tutti::parallel::MemoryKind::optimizer_state, expected.optimizer_state);
}

void Train(const Options& options) {
  // Comes before the communicator, which takes the thread's current device.
  const char* const local_rank = std::getenv("LOCAL_RANK");
  const auto math = make_math(local_rank == nullptr ? 0 : std::atoi(local_rank));
  const auto config = ConfigOf(options);
  const Comm comm = Join(config);
  const auto state = tutti::parallel::initialize_model_parallel(comm.get(), options.train.split, config);
  Configure(*state, options.train.data_parallel, config);
  Trainer trainer(options.train, *state, *math);
  const bool speaks = state->get_world_group().rank() == 0;
  std::ofstream losses;
  if (speaks && !options.train.losses.empty()) losses.open(options.train.losses);
  std::optional<Traffic> traffic;
  for (int step = 0; step < options.train.steps; ++step) {
    if (options.train.bytes) traffic.emplace(options.train, *state, trainer);
    const double loss = trainer.step();
    if (losses.is_open()) losses << fmt::format("{:.9g}\n", loss);
    constexpr int kSpeakEvery = 20;
    if (speaks && (step % kSpeakEvery == 0 || step + 1 == options.train.steps)) {
      fmt::print("step {:4}: loss {:.6f}\n", step + 1, loss);
    }
  }
  if (traffic) traffic->Print();
  if (options.train.memory) PrintMemory(options.train, *state, trainer);
}

}  // namespace
}  // namespace train_lm

int main(int argc, char** argv) {
  CLI::App app("Trains a small language model over Tutti.");
  train_lm::Options options;
  train_lm::Describe(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    train_lm::Train(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_lm: {}\n", error.what());
    return 1;
  }
  return 0;
}
