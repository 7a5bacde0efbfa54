// A model's parameters, and this rank's part of each. Values depend only on names and whole shapes, so every split
// starts with the same model. Parameters used together form a unit: the embedding, each block without its experts, its
// experts, the head.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config.h"
#include "math/model_math.h"
#include "tutti/parallel/data_parallel.h"
#include "tutti/parallel/parallel_state.h"
#include "tutti/parallel/pipeline_schedule.h"
#include "tutti/parallel/tensor_parallel.h"

namespace train_lm {

using tutti::parallel::ParallelState;
using tutti::parallel::Shape;

enum class Split { none, rows, columns };  // over the tensor-parallel group
enum class Initial { zeros, ones, normal };

struct ParameterSpec {
  std::string name;
  Shape whole;
  Split split = Split::none;
  Initial initial = Initial::normal;
  // With sequence parallelism each rank of the tensor-parallel group sees only a part of the sequence, so the gradients
  // of unsplit parameters must be summed over the group.
  bool along_sequence = false;
  // Belongs to an expert: averaged over the ranks that hold the same one.
  bool expert = false;
  std::size_t chunk = 0;  // among the chunks of this rank's stage
};

// All parameters of the model's blocks [first, last), including those before the first block and after the last one if
// these blocks are among them; of the experts, [first_expert, last_expert).
struct StageRange {
  std::size_t first_block = 0, last_block = 0;
  std::size_t first_expert = 0, last_expert = 0;
};
std::vector<ParameterSpec> parameters_of(const ModelConfig& model, const StageRange& range);
// The parameters of a stage's chunks.
std::vector<ParameterSpec> parameters_of(const ModelConfig& model, const std::vector<StageRange>& ranges);
// "embedding", "block0", "block0.experts", ..., "head".
std::string unit_of(const ParameterSpec& spec);

// This rank's part of a parameter, and its initial values.
struct Part {
  Shape shape;
  std::vector<float> values;
};
Shape part_shape(const ParameterSpec& spec, const ParallelState& state);
Part initial_part(const ParameterSpec& spec, const ParallelState& state);

class ShardedParameters;

class Parameters {
 public:
  Parameters(const std::vector<ParameterSpec>& specs, const TrainConfig& config, ParallelState& state, Math& math);
  ~Parameters();

  // With --zero, they exist, and stay in place, only while their unit is used.
  Tensor data(const std::string& name) const;
  Tensor grad(const std::string& name) const;
  // "name.weight" and "name.bias".
  tutti::parallel::LinearParameters linear(const std::string& name);
  // Collects all gradients of a unit's parameters.
  tutti::parallel::WeightGradStore& weight_grads() { return weight_grads_; }

  // `plan` takes the passes of every step on this stage; `begin_pass` starts the next of them.
  void plan(const std::vector<tutti::parallel::PipelineAction>& actions);
  void begin_pass();
  // `compute` uses the unit's parameters, and backward adds to its gradients. Units run one after the other.
  void in_forward(const std::string& unit, const std::function<void()>& compute);
  void in_backward(const std::string& unit, const std::function<void()>& compute);
  // While on, backward defers the parameter gradients, unit by unit, to be computed in that order.
  void defer(bool on) { weight_grads_.defer(on); }
  struct PutOff {
    std::string unit;
    std::vector<tutti::parallel::WeightGradStore::Gradient> gradients;
  };
  std::vector<PutOff> take_put_off() { return std::exchange(put_off_, {}); }
  void backward_weight(const std::vector<PutOff>& units);

  void broadcast();
  void zero_grad();
  // While false, gradients accumulate and are not sent.
  void sync(bool on);
  // Makes every gradient the average over the samples of all ranks.
  void finish_gradients();
  // Buckets of this step that are sent or on their way; those that were so when the last unit's gradients started; all
  // buckets.
  std::size_t buckets_sent() const { return sharded_ ? 0 : dense_->buckets_sent() + experts_->buckets_sent(); }
  std::size_t buckets_sent_before_last_unit() const { return sent_before_last_unit_; }
  std::size_t buckets() const { return sharded_ ? 0 : dense_->buckets().size() + experts_->buckets().size(); }
  // Bytes of this rank's parameters outside experts, and of those among them that it updates.
  std::size_t dense_bytes() const { return DenseBytes(false); }
  std::size_t updated_dense_bytes() const { return DenseBytes(true); }
  // Afterwards, every rank has all parameters.
  void adam(AdamStep step);

  // Bytes sent, by groups that do not belong to the state.
  std::map<std::string, std::uint64_t> bytes_sent() const;
  const tutti::parallel::MemoryAccount& memory() const { return memory_; }

 private:
  using DistributedDataParallel = tutti::parallel::DistributedDataParallel;
  struct Entry {
    ParameterSpec spec;
    Buffer own;
    Tensor data;
    Buffer first_moment, second_moment;
    std::size_t index = 0;  // in dense_ or experts_
  };

  std::size_t DenseBytes(bool updated_only) const;
  DistributedDataParallel& owner(const Entry& entry) const { return entry.spec.expert ? *experts_ : *dense_; }
  // Marks the gradients of all of the unit's parameters as ready.
  void MarkReady(const std::string& unit);

  ParallelState& state_;
  Math& math_;
  bool sequence_parallel_;
  tutti::parallel::MemoryAccount memory_;
  tutti::parallel::WeightGradStore weight_grads_;
  std::vector<PutOff> put_off_;
  std::size_t sent_before_last_unit_ = 0;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::vector<const Entry*>> units_;
  std::unique_ptr<DistributedDataParallel> dense_, experts_;
  std::unique_ptr<DistributedDataParallel::NoSync> dense_waits_, experts_wait_;
  std::unique_ptr<ShardedParameters> sharded_;  // with --zero, replaces all of the above
};

}  // namespace train_lm
