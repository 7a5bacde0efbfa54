// Trains a small language model on text that every Debian machine has, split as the flags say. One process is one rank:
//
//   train_lm --steps 200                                               on one rank
//   examples/run.sh 8 train_lm --tensor 2 --pipeline 2                 on eight: the rest is data-parallel
//   mpirun, torchrun and Slurm can also start it (docs/running.md)
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "model.h"
#include "tutti/parallel/error.h"

namespace train_lm {
namespace {

using tutti::parallel::check;
using tutti::parallel::require_divisible;
using Comm = std::unique_ptr<tuttiComm, decltype(&tuttiCommDestroy)>;

struct Options {
  ModelConfig model;
  tutti::parallel::ModelParallelSizes split;
  std::string schedule = "1F1B";
  std::size_t batch = 8;  // samples of a step, over all replicas
  int steps = 200;
  float learning_rate = 1e-3F;
  std::string text = "/usr/share/common-licenses/GPL-3";
  std::string losses;
};

void Describe(CLI::App& app, Options& options) {
  auto& model = options.model;
  app.add_option("--tensor", options.split.tensor_model_parallel_size, "number of tensor-parallel ranks");
  app.add_option("--pipeline", options.split.pipeline_model_parallel_size, "number of pipeline stages");
  app.add_flag("--sequence-parallel", model.sequence_parallel, "split the sequence between tensor-parallel regions");
  app.add_option("--schedule", options.schedule, "GPipe or 1F1B");
  app.add_option("--microbatches", model.microbatches, "number of microbatches of a replica's samples")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "samples per step, over all ranks")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps);
  app.add_option("--learning-rate", options.learning_rate);
  app.add_option("--layers", model.layers);
  app.add_option("--hidden", model.hidden);
  app.add_option("--heads", model.heads);
  app.add_option("--sequence", model.sequence, "bytes of text per sample")->check(CLI::PositiveNumber);
  app.add_option("--feed-forward", model.feed_forward);
  app.add_option("--text", options.text, "file to learn");
  app.add_option("--losses", options.losses, "file to write the losses to, one per line");
}

std::string ReadText(const std::string& path, std::size_t least) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() >= least) return text;
  throw std::runtime_error(fmt::format(
      "{} has {} readable bytes, but a sequence needs {}: name another file with --text", path, text.size(), least));
}

// Joins as torchrun and similar launchers specify, or alone.
Comm Join() {
  tuttiComm_t comm = nullptr;
  if (std::getenv("WORLD_SIZE") != nullptr) {
    check(tuttiCommInitEnv(&comm, nullptr));
  } else {
    tuttiUniqueId id;
    check(tuttiGetUniqueId(&id));
    check(tuttiCommInitRank(&comm, 1, id, 0));
  }
  return {comm, &tuttiCommDestroy};
}

class Trainer {
 public:
  Trainer(const Options& options, ParallelState& state, Math& math)
      : options_(options),
        config_(ConfigOf(options, state)),
        state_(state),
        math_(math),
        text_(ReadText(options.text, config_.sequence + 1)),
        model_(config_, state, math, [this](int microbatch) { return Load(microbatch); }),
        pipeline_(state.get_pipeline_model_parallel_group(), model_.input(), model_.output()),
        schedule_(tutti::parallel::get_schedule(options.schedule, state.get_pipeline_model_parallel_group().size(),
                                                static_cast<int>(config_.microbatches))) {}

  // Returns the mean loss of the step's tokens, the same on every rank.
  double Step() {
    auto& parameters = model_.parameters();
    parameters.zero_grad();
    pipeline_.run(schedule_, model_, math_.compute().stream());
    parameters.finish_gradients();
    ++step_;
    parameters.adam({.learning_rate = options_.learning_rate, .step = step_});
    // The last stages have the loss; all ranks of a tensor-parallel group have the same.
    double sum = state_.get_tensor_model_parallel_group().rank() == 0 ? model_.take_loss() : 0;
    const Tensor total(&sum, {1}, tuttiFloat64);
    state_.get_world_group().all_reduce(total, total, tuttiSum);
    return sum / static_cast<double>(options_.batch * config_.sequence);
  }

 private:
  // With the samples of a micro-batch, if everything divides.
  static ModelConfig ConfigOf(const Options& options, ParallelState& state) {
    const auto replicas = static_cast<std::size_t>(state.get_data_parallel_group().size());
    auto config = options.model;
    require_divisible("batch", options.batch, "data_parallel_size", replicas);
    require_divisible("a replica's samples", options.batch / replicas, "microbatches", config.microbatches);
    config.batch = options.batch / replicas / config.microbatches;
    return config;
  }

  // Sample s of a step is the same in every split. Bytes of the samples alternate, since the batch varies faster.
  Samples Load(int microbatch) {
    const auto replica = static_cast<std::size_t>(state_.get_data_parallel_group().rank());
    const std::size_t batch = config_.batch;
    const std::size_t first = (replica * config_.microbatches + static_cast<std::size_t>(microbatch)) * batch;
    std::vector<std::int32_t> ids(config_.sequence * batch), targets(ids.size());
    for (std::size_t i = 0; i < batch; ++i) {
      std::seed_seq seed{static_cast<std::size_t>(step_), first + i};
      std::mt19937 random(seed);
      const std::size_t begin = random() % (text_.size() - config_.sequence);
      for (std::size_t position = 0; position < config_.sequence; ++position) {
        ids[position * batch + i] = static_cast<unsigned char>(text_[begin + position]);
        targets[position * batch + i] = static_cast<unsigned char>(text_[begin + position + 1]);
      }
    }
    auto& compute = math_.compute();
    Samples samples{Buffer(compute, {config_.sequence, batch}, tuttiInt32), Buffer(compute, {ids.size()}, tuttiInt32)};
    compute.upload(ids.data(), samples.ids);
    compute.upload(targets.data(), samples.targets);
    return samples;
  }

  const Options& options_;
  ModelConfig config_;
  ParallelState& state_;
  Math& math_;
  std::string text_;
  Model model_;
  tutti::parallel::PipelineParallel pipeline_;
  tutti::parallel::PipelineSchedule schedule_;
  int step_ = 0;
};

void Train(const Options& options) {
  // Comes before the communicator, which takes the thread's current device.
  const char* const local_rank = std::getenv("LOCAL_RANK");
  const auto math = make_math(local_rank == nullptr ? 0 : std::atoi(local_rank));
  const Comm comm = Join();
  const auto state = tutti::parallel::initialize_model_parallel(comm.get(), options.split);
  Trainer trainer(options, *state, *math);
  const bool speaks = state->get_world_group().rank() == 0;
  std::ofstream losses;
  if (speaks && !options.losses.empty()) losses.open(options.losses);
  if (losses.fail()) throw std::runtime_error(fmt::format("--losses {} cannot be written", options.losses));
  for (int step = 0; step < options.steps; ++step) {
    const double loss = trainer.Step();
    if (losses.is_open()) losses << fmt::format("{:.9g}\n", loss);
    constexpr int kSpeakEvery = 20;
    if (speaks && (step % kSpeakEvery == 0 || step + 1 == options.steps)) {
      fmt::print("step {:4}: loss {:.6f}\n", step + 1, loss);
    }
  }
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
