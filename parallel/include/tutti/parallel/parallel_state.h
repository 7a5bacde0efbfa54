// The groups of a job that splits a model several ways at once, as in Megatron-Core's parallel_state: the same layout
// of ranks, and the same names of the groups' getters. Experts have a second layout, whose groups cut across the dense layers'.
//
// Thread-safety: one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/parallel/device_mesh.h"

namespace tutti::parallel {

struct TUTTI_API ModelParallelSizes {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  int context_parallel_size = 1;
  int ulysses_size = 1;  // how many of the context-parallel ranks exchange heads; the others are a ring across them
  int expert_model_parallel_size = 1;
  int expert_tensor_parallel_size = 0;  // 0: tensor_model_parallel_size
  int data_parallel_size = 0;           // 0: what is left of the world
  // The axes of ranks, from the fastest-varying to the slowest; axes of size 1 may be left out.
  std::string order = "tp-cp-ep-dp-pp";
};

// The layouts, by arithmetic alone. Axes: dense layers "tp", "cp", "dp", "pp"; experts "tp", "ep", "dp", "pp"; context
// is the dense layers' with "ulysses" and "ring" instead of "cp". "ulysses" varies faster: its all-to-alls are the
// heavier traffic, so they are between the nearer ranks, as in Megatron's hierarchical_context_parallel_sizes and USP.
// Source of the layouts: Megatron-Core, parallel_state.py, RankGenerator.
struct TUTTI_API ModelParallelLayouts {
  MeshLayout dense;
  MeshLayout expert;
  MeshLayout context;
};
// Throws Error naming the quantity and both values if the sizes do not multiply to the world, ulysses_size does not
// divide context_parallel_size, an axis with a size above 1 is not in the order, or the layouts put the pipeline's
// stages on different ranks.
TUTTI_API ModelParallelLayouts layouts_of(const ModelParallelSizes& sizes, int world_size);

class TUTTI_API ParallelState {
 public:
  // `config`: how the groups' communicators are made.
  ParallelState(tuttiComm_t world, const ModelParallelSizes& sizes, const tuttiConfig_t& config);

  ProcessGroup& get_world_group() { return world_; }

  ProcessGroup& get_tensor_model_parallel_group() { return dense_.group("tp"); }

  ProcessGroup& get_pipeline_model_parallel_group() { return dense_.group("pp"); }

  // With context parallelism: all ranks that have the same parameters; the same group if the context is not split.
  ProcessGroup& get_data_parallel_group(bool with_context_parallel = false) {
    return with_context_parallel && dense_.size("cp") > 1 ? dense_.flattened({"dp", "cp"}) : dense_.group("dp");
  }

  ProcessGroup& get_context_parallel_group() { return dense_.group("cp"); }
  // Its two sub-groups, in xDiT's names: rank i of the one and j of the other is rank j * ulysses_size + i of it.
  ProcessGroup& get_ulysses_parallel_group() { return context_.group("ulysses"); }
  ProcessGroup& get_ring_parallel_group() { return context_.group("ring"); }

  // All ranks that hold a part of one replica of the model.
  ProcessGroup& get_model_parallel_group() { return dense_.flattened({"tp", "pp"}); }
  // The pipeline's first and last stage, which may share an embedding. REQUIRES: this rank is in one of them.
  ProcessGroup& get_embedding_group();

  ProcessGroup& get_expert_model_parallel_group() { return expert_.group("ep"); }
  ProcessGroup& get_expert_tensor_parallel_group() { return expert_.group("tp"); }
  // Ranks that hold the same experts.
  ProcessGroup& get_expert_data_parallel_group() { return expert_.group("dp"); }

  // Closes all groups: who still has one gets an Error from its calls.
  void close();
  // Payload that this rank has sent by all these groups, by name.
  std::map<std::string, std::uint64_t> bytes_sent() const;

 private:
  ProcessGroup world_;
  ModelParallelLayouts layouts_;
  DeviceMesh dense_;
  DeviceMesh expert_;
  DeviceMesh context_;
  std::unique_ptr<ProcessGroup> embedding_;
  tuttiConfig_t config_;
};

// Megatron's name for it.
TUTTI_API std::unique_ptr<ParallelState> initialize_model_parallel(
    tuttiComm_t world, const ModelParallelSizes& sizes, const tuttiConfig_t& config = TUTTI_CONFIG_INITIALIZER);

}  // namespace tutti::parallel
