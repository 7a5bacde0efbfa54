// The model, its training and its split, as the command line gives them.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/parallel/parallel_state.h"

namespace train_lm {

struct ModelConfig {
  std::size_t layers = 4;
  std::size_t hidden = 64;
  std::size_t heads = 4;
  std::size_t kv_heads = 0;  // of keys and values (Ainslie et al. 2023, "GQA"); 0: as many as `heads`
  std::size_t sequence = 64;
  std::size_t vocabulary = 256;  // bytes of text
  std::size_t feed_forward = 256;
  std::size_t experts = 0;  // 0: one multilayer perceptron per block instead of a mixture
  std::size_t top_k = 2;

  std::size_t head_width() const { return hidden / heads; }
  std::size_t heads_of_keys() const { return kv_heads == 0 ? heads : kv_heads; }
  // Columns of queries, keys and values together.
  std::size_t mixed_columns() const { return (heads + 2 * heads_of_keys()) * head_width(); }
};

// How data-parallel ranks combine their gradients.
enum class GradientExchange {
  all_reduce,
  parameter_server,  // Li et al. 2014: servers, the first ranks of a group, get the gradients and send parameters
  broadcast,         // every rank sends everything to every other rank
};

struct TrainConfig {
  ModelConfig model;
  tutti::parallel::ModelParallelSizes split;
  bool sequence_parallel = false;
  GradientExchange data_parallel = GradientExchange::all_reduce;
  int servers = 1;             // of a parameter server, in each data-parallel group
  int zero = 0;                // the stage of ZeRO: what data-parallel ranks share; 0: nothing
  int shard_group = 0;         // ranks that share it; 0: all data-parallel ranks
  int expert_shard_group = 0;  // among ranks with the same experts, how many share them; 0: all
  std::string schedule = "1F1B";
  int virtual_stages = 1;        // model chunks per stage (Megatron: virtual_pipeline_model_parallel_size)
  std::size_t batch = 8;         // samples per step, over all data-parallel ranks
  std::size_t microbatches = 4;  // into which a data-parallel rank's samples are divided
  int steps = 200;
  float learning_rate = 1e-3F;
  std::size_t bucket_bytes = 0;  // of gradients; 0: PyTorch's
  bool deterministic = false;
  std::string text = "/usr/share/common-licenses";
  std::string losses;   // file for the losses, one line per step
  bool bytes = false;   // print the bytes sent in a step
  bool memory = false;  // print the memory for parameters, gradients and the optimiser's state
};

}  // namespace train_lm
