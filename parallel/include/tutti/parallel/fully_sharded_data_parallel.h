// Data parallelism whose ranks share what every replica of the model would repeat: each rank keeps a shard of the
// optimiser's state, of the gradients and of the parameters. The model is a list of units, such as transformer blocks.
// A unit's parameters are gathered while the unit before computes; its gradients are reduce-scattered while the next
// one's are computed.
//
// Sources: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (the three
// stages); Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (units, flat
// parameters, prefetching, hybrid sharding).
//
//   FullyShardedDataParallel fsdp(group, compute, units, {.stage = ZeroStage::parameters});
//   for each unit: initialize(unit, ...);
//   for each step:
//     zero_grad();
//     forward, for each unit: pre_forward(u); compute with data(u, i); post_forward(u);
//     backward, from the last: pre_backward(u); compute with data(u, i), add to grad(u, i); post_backward(u);
//     finish_gradients(); the optimiser changes shard(u).data by shard(u).grad; parameters_updated();
//
// pre_forward and pre_backward wait for what the previous unit began - this unit's all-gather, and the reduce-scatter
// of the unit before that - and begin the next. So while a unit computes, at most one all-gather and one reduce-scatter
// are under way. All ranks use units in the same order.
//
// In a pipeline, where a stage has several chunks of the model, a pass goes through the units of one. A backward may be
// in two parts, as in zero-bubble schedules (Qi et al. 2023): first what earlier layers wait for, with parameters but
// no gradients; then, perhaps after other passes, what the unit learns, with gradients but no parameters:
//
//     for each unit, from the last: pre_backward_input(u); compute with data(u, i); post_backward_input(u);
//     for each unit, from the last: pre_backward_weight(u); add to grad(u, i); post_backward_weight(u);
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/parallel/data_parallel.h"
#include "tutti/parallel/flat_parameter.h"   // how a unit is cut into shards
#include "tutti/parallel/hybrid_sharding.h"  // the groups that share it
#include "tutti/parallel/memory_account.h"

namespace tutti::parallel {

// The state that is sharded; each stage also shards what the one before does.
enum class ZeroStage {
  optimizer_state = 1,  // Megatron's DistributedOptimizer
  gradients = 2,        // FSDP's SHARD_GRAD_OP
  parameters = 3,       // FSDP's FULL_SHARD
};

// Parameters that are gathered together; of one type, float32 or bfloat16. Their tensors' memory is not accessed.
struct TUTTI_API ShardedUnit {
  std::string name;
  std::vector<Parameter> parameters;
  // The chunk of the model, of those on this rank, in whose passes the unit is used: units gathered ahead are of the
  // same chunk. Units of a chunk follow each other.
  int chunk = 0;
  // The ranks that have these parameters: for experts those with the same ones, as in ParallelState's
  // get_expert_data_parallel_group(). Null: the whole group. Gradients are still averaged over the whole group, whose
  // samples an expert sees, or divided by gradient_divisor. A rank that is alone in its group keeps all.
  ProcessGroup* group = nullptr;
  // For that group, as in the config; 0 without one.
  int shard_group_size = 0;
};

struct TUTTI_API FullyShardedDataParallelConfig {
  ZeroStage stage = ZeroStage::parameters;
  // Ranks that share one model; the group has as many replicas as such groups. 0: all. For units without a group of
  // their own.
  int shard_group_size = 0;
  // As in DistributedDataParallelConfig.
  int gradient_divisor = 0;
  // Counts the memory taken here; outlives this.
  MemoryAccount* memory = nullptr;
  // How the communicators of shard groups are made, if they are not the whole group.
  tuttiConfig_t communicators = TUTTI_CONFIG_INITIALIZER;
};

class TUTTI_API FullyShardedDataParallel {
 public:
  // Collective. Throws Error on every rank of the group and of the units' groups, before anything of the model is sent:
  // tuttiInvalidArgument for a shard group that does not divide its group, chunks out of order, or parameters without
  // elements, of one name, or of several types in a unit; tuttiInvalidUsage, naming two ranks, where units, their
  // order, or settings differ. Everything given outlives this.
  FullyShardedDataParallel(ProcessGroup& group, Compute& compute, std::vector<ShardedUnit> units,
                           const FullyShardedDataParallelConfig& config = {});
  FullyShardedDataParallel(const FullyShardedDataParallel&) = delete;
  FullyShardedDataParallel& operator=(const FullyShardedDataParallel&) = delete;
  // Waits for collectives under way, since they use memory of this.
  ~FullyShardedDataParallel();

  std::size_t units() const;
  // Calls `fill` for each parameter with where its values go. Every rank gets those of rank 0 of the unit's group, and
  // keeps its shard.
  void initialize(std::size_t unit, const std::function<void(std::size_t parameter, const Tensor& values)>& fill);

  void pre_forward(std::size_t unit);
  void post_forward(std::size_t unit);
  void pre_backward(std::size_t unit);
  void post_backward(std::size_t unit);
  // A backward in two parts: as many of the second as of the first. A second part without a first throws Error
  // (tuttiInvalidUsage), and so does finish_gradients() after a first without a second.
  void pre_backward_input(std::size_t unit);
  void post_backward_input(std::size_t unit);
  void pre_backward_weight(std::size_t unit);
  void post_backward_weight(std::size_t unit);
  // Call it before a pass's last unit is used: names the unit with which the next pass, through whichever chunk,
  // begins, so that it is gathered while the last unit computes. Without a call before it, a pass waits for its first
  // unit. Must be the same on all ranks. Throws Error (tuttiInvalidArgument) where there is no such unit.
  void set_next_pass(std::optional<std::size_t> first_unit);
  // Both throw Error (tuttiInvalidUsage) where there is nothing to return: parameters before pre_forward, pre_backward
  // or pre_backward_input and - with ZeroStage::parameters - after the matching post; gradients outside of backward,
  // except with ZeroStage::optimizer_state. The tensors point to another place each time. Only both parts of a backward
  // have gradients in the same place, so that the first part may give layers the place to which the second adds. They
  // must not add sooner: other gradients are there until then.
  Tensor data(std::size_t unit, std::size_t parameter) const;
  Tensor grad(std::size_t unit, std::size_t parameter) const;

  void zero_grad();
  // False: more micro-batches of this step follow. ZeroStage::optimizer_state then adds gradients up and sends none;
  // the other stages reduce-scatter each micro-batch's, since they have no memory for all of them, and average across
  // replicas only the last time.
  void set_requires_gradient_sync(bool on);
  // Ends the pass: waits until every shard's gradient is the average over the group.
  void finish_gradients();

  // The part that this rank's optimiser owns, float32; it may have no elements. For bfloat16 parameters, `data` is the
  // master copy, which is part of the optimiser's state.
  struct Shard {
    Tensor data, grad;
  };
  Shard shard(std::size_t unit) const;
  // The optimiser has changed the shards: from now on units are gathered again.
  void parameters_updated();
  // To save what the ranks of a shard group have by shards, such as an optimiser's moments, and to load it at any number
  // of ranks. Collective over the unit's shard group: each rank's `mine`, in its shard's size, one behind the other in
  // `whole`, which has all of the unit's elements.
  void gather(std::size_t unit, const Tensor& mine, const Tensor& whole);
  // The part of `whole` that is this rank's.
  Tensor shard_of(std::size_t unit, const Tensor& whole) const;

  enum class UnitState { sharded, gathering, whole };
  UnitState state(std::size_t unit) const;
  // The sharded state of the unit: as in the config, or, where a rank has no others to share with, as with
  // ZeroStage::optimizer_state: all parameters and gradients stay, and gradients are added up.
  ZeroStage stage(std::size_t unit) const;
  // Payload sent by groups that are not one of those given; see HybridShardingGroups.
  std::map<std::string, std::uint64_t> bytes_sent() const;
  const MemoryAccount& memory() const;

 private:
  struct Parts;

  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::parallel
