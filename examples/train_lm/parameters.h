// A model's parameters: this rank's part of each, its gradient, and Adam's moments. Initial values depend only on names
// and whole shapes, so every split starts with the same model. Replicas' gradients are averaged while the backward pass
// still computes others (DistributedDataParallel).
//
// Thread-safety: one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model_math.h"
#include "tutti/parallel/data_parallel.h"
#include "tutti/parallel/parallel_state.h"
#include "tutti/parallel/tensor_parallel.h"

namespace train_lm {

using tutti::parallel::ParallelState;
using tutti::parallel::Shape;

enum class Split { none, rows, columns };  // over the tensor-parallel group

struct ParameterSpec {
  std::string name;
  Shape whole;
  Split split = Split::none;
  // The gain of a norm: begins as ones, not at random. With sequence parallelism each rank of the tensor-parallel group
  // sees only a part of the sequence, so its gradient must be summed over the group.
  bool is_gain = false;
};

class Parameters {
 public:
  Parameters(const std::vector<ParameterSpec>& specs, ParallelState& state, bool sequence_parallel, Math& math);

  Tensor data(const std::string& name) const { return entries_[index_.at(name)].data; }
  Tensor grad(const std::string& name) const { return ddp_->grad(index_.at(name)); }
  tutti::parallel::LinearParameters linear(const std::string& name) const { return {data(name), {}, grad(name), {}}; }

  void zero_grad() { ddp_->zero_grad(); }
  // The gradients of all parameters whose names begin with `prefix` are complete, and may be sent.
  void mark_ready(const std::string& prefix);
  // Makes every gradient the average over the samples of all ranks.
  void finish_gradients();
  void adam(const AdamStep& step);

 private:
  struct Entry {
    ParameterSpec spec;
    Buffer data, first_moment, second_moment;
  };

  ParallelState& state_;
  bool sequence_parallel_;
  Math& math_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> index_;  // by name
  std::optional<tutti::parallel::DistributedDataParallel> ddp_;
};

}  // namespace train_lm
