// A model's parameters, shared by its data-parallel ranks (--zero), in units whose use the model announces; experts are
// shared by the ranks that have the same ones. Adam runs over this rank's shards.
//
// Thread-safety: one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parameters.h"
#include "tutti/parallel/fully_sharded_data_parallel.h"
#include "tutti/parallel/pipeline_schedule.h"

namespace train_lm {

class ShardedParameters {
 public:
  ShardedParameters(const std::vector<ParameterSpec>& specs, const TrainConfig& config, ParallelState& state,
                    Math& math, tutti::parallel::MemoryAccount& memory);

  // Valid while the parameter's unit is used.
  Tensor data(const std::string& name) const;
  // Valid while the unit is in backward, or in its first part for what the second part adds. Otherwise it has no
  // memory, for layers created for a forward pass.
  Tensor grad(const std::string& name) const;

  // `plan` takes the passes of every step on this stage; `begin_pass` starts the next of them.
  void plan(const std::vector<tutti::parallel::PipelineAction>& actions);
  void begin_pass();
  void pre_forward(const std::string& unit) { fsdp_.pre_forward(units_.at(unit)); }
  void post_forward(const std::string& unit) { fsdp_.post_forward(units_.at(unit)); }
  void pre_backward(const std::string& unit);
  void post_backward(const std::string& unit);
  void pre_backward_input(const std::string& unit);
  void post_backward_input(const std::string& unit);
  void pre_backward_weight(const std::string& unit) { fsdp_.pre_backward_weight(units_.at(unit)); }
  void post_backward_weight(const std::string& unit);
  void zero_grad();
  void sync(bool on);
  void finish_gradients() { fsdp_.finish_gradients(); }
  void adam(const AdamStep& step);
  std::map<std::string, std::uint64_t> bytes_sent() const { return fsdp_.bytes_sent(); }

 private:
  using FullyShardedDataParallel = tutti::parallel::FullyShardedDataParallel;
  struct Entry {
    std::size_t unit, index;
    Shape shape;
    bool along_sequence;
  };

  std::vector<tutti::parallel::ShardedUnit> UnitsOf(const std::vector<ParameterSpec>& specs, const TrainConfig& config);
  // Sums the gradients of unsplit parameters, before they are reduced.
  void SumAlongSequence(std::size_t unit);

  ParallelState& state_;
  Math& math_;
  bool sequence_parallel_;
  bool last_pass_ = true;
  std::map<std::string, std::size_t> units_;
  std::vector<std::pair<std::size_t, std::size_t>> chunks_;  // the first and the last unit of each
  std::map<std::string, Entry> entries_;
  FullyShardedDataParallel fsdp_;
  std::vector<std::pair<Buffer, Buffer>> moments_;       // first and second, by unit
  std::optional<std::size_t> in_backward_;               // a unit
  std::vector<std::optional<std::size_t>> first_units_;  // that each pass of a step gathers
  std::size_t passes_ = 0;                               // begun in this step
};

}  // namespace train_lm
