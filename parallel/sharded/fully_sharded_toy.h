// A model for the tests of sharding: units of unequal sizes whose gradients are known, trained by plain descent, and
// its expected values, computed on one rank.
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/fully_sharded_data_parallel.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/pipeline_schedule.h"

namespace tutti::parallel {

// Sizes of the parameters, by unit. With most numbers of ranks the first unit has empty shards.
using UnitSizes = std::vector<std::vector<std::size_t>>;
inline const UnitSizes kAwkward{{1}, {3, 2}, {17, 1, 40}, {7}, {256, 9}};

inline std::vector<ShardedUnit> UnitsOf(const UnitSizes& sizes, tuttiDataType_t dtype = tuttiFloat32) {
  std::vector<ShardedUnit> units;
  for (const auto& unit : sizes) {
    units.push_back({fmt::format("unit{}", units.size()), {}});
    for (const auto size : unit) {
      const auto name = fmt::format("weight{}", units.back().parameters.size());
      units.back().parameters.push_back({name, Tensor(nullptr, {size}, dtype)});
    }
  }
  return units;
}

// The units of a toy that not every rank has: experts, of which rank r has those of group r % groups.
struct ToyExperts {
  std::set<std::size_t> units = {};
  int groups = 1;
  ProcessGroup* own = nullptr;  // the ranks with the same ones
  int shard_group_size = 0;
};

// The gradient of each value is noise, another on each rank and micro-batch, and a tenth of the value.
class FullyShardedToy {
 public:
  // Splits its units over `chunks` chunks.
  FullyShardedToy(UnitSizes sizes, int rank, int ranks, std::size_t chunks = 1, ToyExperts experts = {})
      : sizes_(std::move(sizes)), rank_(rank), ranks_(ranks), chunks_(chunks), experts_(std::move(experts)) {
    for (std::size_t unit = 0; unit < sizes_.size(); ++unit) {
      const std::size_t version = experts_.units.contains(unit) ? static_cast<std::size_t>(rank_ % experts_.groups) : 0;
      for (std::size_t i = 0; i < sizes_[unit].size(); ++i) {
        values_.emplace_back(RandomFloats(sizes_[unit][i], static_cast<unsigned>(100 * unit + i + 10000 * version)));
        firsts_.emplace(std::pair(unit, i), values_.size() - 1);
      }
    }
  }

  std::vector<ShardedUnit> units() const {
    auto units = UnitsOf(sizes_);
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      units[unit].chunk = static_cast<int>(chunk_of(unit));
      if (!experts_.units.contains(unit)) continue;
      units[unit].group = experts_.own;
      units[unit].shard_group_size = experts_.shard_group_size;
    }
    return units;
  }
  std::size_t chunk_of(std::size_t unit) const { return unit * chunks_ / sizes_.size(); }
  // In the order of forward.
  std::vector<std::size_t> units_of_chunk(std::size_t chunk) const {
    std::vector<std::size_t> units;
    for (std::size_t unit = 0; unit < sizes_.size(); ++unit) {
      if (chunk_of(unit) == chunk) units.push_back(unit);
    }
    return units;
  }
  const std::vector<float>& initial_values(std::size_t unit, std::size_t parameter) const {
    return values_[firsts_.at({unit, parameter})];
  }

  // Checks the parameters.
  void forward(const FullyShardedDataParallel& fsdp, std::size_t unit) const {
    for (std::size_t i = 0; i < sizes_[unit].size(); ++i) {
      const auto& wanted = values_[firsts_.at({unit, i})];
      const auto found = FloatsOf(fsdp.data(unit, i));
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t j = 0; j < found.size(); ++j) {
        ASSERT_NEAR(found[j], wanted[j], 1e-5) << "unit " << unit << ", parameter " << i << " at " << j;
      }
    }
  }

  void backward(const FullyShardedDataParallel& fsdp, std::size_t unit, int microbatch) const {
    for (std::size_t i = 0; i < sizes_[unit].size(); ++i) {
      const auto noise = Noise(unit, i, rank_, microbatch);
      float *const data = fsdp.data(unit, i).floats(), *const grad = fsdp.grad(unit, i).floats();
      for (std::size_t j = 0; j < noise.size(); ++j) grad[j] += noise[j] + data[j] / 10;
    }
  }

  // The same in two parts: the second adds at the places that the first got, and has no parameters.
  void backward_input(const FullyShardedDataParallel& fsdp, std::size_t unit, int microbatch) {
    auto& put_off = put_off_[{unit, microbatch}];
    ASSERT_TRUE(put_off.empty());
    for (std::size_t i = 0; i < sizes_[unit].size(); ++i) {
      auto gradient = FloatsOf(fsdp.data(unit, i));
      const auto noise = Noise(unit, i, rank_, microbatch);
      for (std::size_t j = 0; j < noise.size(); ++j) gradient[j] = noise[j] + gradient[j] / 10;
      put_off.emplace_back(fsdp.grad(unit, i), std::move(gradient));
    }
  }
  void backward_weight(std::size_t unit, int microbatch) {
    for (const auto& [place, gradient] : put_off_.at({unit, microbatch})) {
      for (std::size_t j = 0; j < gradient.size(); ++j) place.floats()[j] += gradient[j];
    }
    put_off_.erase({unit, microbatch});
  }

  static void Descend(const Tensor& data, const Tensor& grad) {
    for (std::size_t j = 0; j < data.count(); ++j) data.floats()[j] -= kRate * grad.floats()[j];
  }

  // The same step, computed from every rank's gradients.
  void ReferenceStep(int microbatches) {
    for (const auto& [where, index] : firsts_) {
      auto& values = values_[index];
      std::vector<double> grad(values.size());
      for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
        for (int rank = 0; rank < ranks_; ++rank) {
          if (experts_.units.contains(where.first) && rank % experts_.groups != rank_ % experts_.groups) continue;
          const auto noise = Noise(where.first, where.second, rank, microbatch);
          for (std::size_t j = 0; j < grad.size(); ++j) grad[j] += (noise[j] + values[j] / 10) / ranks_;
        }
      }
      for (std::size_t j = 0; j < grad.size(); ++j) values[j] -= static_cast<float>(kRate * grad[j]);
    }
  }

 private:
  static constexpr float kRate = 0.1F;

  std::vector<float> Noise(std::size_t unit, std::size_t i, int rank, int microbatch) const {
    const auto seed = static_cast<unsigned>(((unit * 10 + i) * 10 + static_cast<std::size_t>(rank)) * 10) +
                      static_cast<unsigned>(microbatch) + 5000;
    return RandomFloats(sizes_[unit][i], seed);
  }

  UnitSizes sizes_;
  int rank_, ranks_;
  std::size_t chunks_;
  ToyExperts experts_;
  std::vector<std::vector<float>> values_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> firsts_;  // of (unit, parameter) in values_
  // By unit and micro-batch: where each parameter's gradient goes, and its values.
  std::map<std::pair<std::size_t, int>, std::vector<std::pair<Tensor, std::vector<float>>>> put_off_;
};

inline void Initialize(FullyShardedDataParallel& fsdp, const FullyShardedToy& toy) {
  for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
    fsdp.initialize(unit, [&](std::size_t parameter, const Tensor& values) {
      std::ranges::copy(toy.initial_values(unit, parameter), values.floats());
    });
  }
}

inline void TrainStep(FullyShardedDataParallel& fsdp, const FullyShardedToy& toy, int microbatches) {
  fsdp.zero_grad();
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    fsdp.set_requires_gradient_sync(microbatch + 1 == microbatches);
    for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
      fsdp.pre_forward(unit);
      toy.forward(fsdp, unit);
      fsdp.post_forward(unit);
    }
    for (std::size_t unit = fsdp.units(); unit-- > 0;) {
      fsdp.pre_backward(unit);
      toy.backward(fsdp, unit, microbatch);
      fsdp.post_backward(unit);
    }
  }
  fsdp.finish_gradients();
  for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
    const auto [data, grad] = fsdp.shard(unit);
    FullyShardedToy::Descend(data, grad);
  }
  fsdp.parameters_updated();
}

// One pass through a chunk, as a stage of a pipeline does it.
inline void DoPass(FullyShardedDataParallel& fsdp, FullyShardedToy& toy, const PipelineAction& action) {
  auto units = toy.units_of_chunk(static_cast<std::size_t>(action.chunk));
  if (action.pass != PipelinePass::forward) std::ranges::reverse(units);
  for (const std::size_t unit : units) {
    switch (action.pass) {
      case PipelinePass::forward:
        fsdp.pre_forward(unit);
        toy.forward(fsdp, unit);
        fsdp.post_forward(unit);
        break;
      case PipelinePass::backward:
        fsdp.pre_backward(unit);
        toy.backward(fsdp, unit, action.microbatch);
        fsdp.post_backward(unit);
        break;
      case PipelinePass::backward_input:
        fsdp.pre_backward_input(unit);
        toy.backward_input(fsdp, unit, action.microbatch);
        fsdp.post_backward_input(unit);
        break;
      case PipelinePass::backward_weight:
        fsdp.pre_backward_weight(unit);
        toy.backward_weight(unit, action.microbatch);
        fsdp.post_backward_weight(unit);
        break;
    }
  }
}

// The unit whose parameters a pass needs first; none for the second part of a backward.
inline std::optional<std::size_t> FirstUnit(const FullyShardedToy& toy, const PipelineAction& action) {
  if (action.pass == PipelinePass::backward_weight) return std::nullopt;
  const auto units = toy.units_of_chunk(static_cast<std::size_t>(action.chunk));
  return action.pass == PipelinePass::forward ? units.front() : units.back();
}

// A step of one stage.
inline void TrainStep(FullyShardedDataParallel& fsdp, FullyShardedToy& toy, const PipelineSchedule& schedule,
                      int stage) {
  fsdp.zero_grad();
  std::map<int, int> left;  // of a chunk's backwards
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) left[chunk] = schedule.microbatches;
  const auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const auto& action = actions[i];
    fsdp.set_next_pass(i + 1 < actions.size() ? FirstUnit(toy, actions[i + 1]) : std::nullopt);
    const bool adds = action.pass == PipelinePass::backward || action.pass == PipelinePass::backward_weight;
    if (adds) fsdp.set_requires_gradient_sync(--left[action.chunk] == 0);
    DoPass(fsdp, toy, action);
  }
  fsdp.finish_gradients();
  for (std::size_t unit = 0; unit < fsdp.units(); ++unit) {
    const auto [data, grad] = fsdp.shard(unit);
    FullyShardedToy::Descend(data, grad);
  }
  fsdp.parameters_updated();
}

inline constexpr ZeroStage kStages[] = {ZeroStage::optimizer_state, ZeroStage::gradients, ZeroStage::parameters};

// Rank 1 begins communication only when rank 0 reports that it computes.
class HeldBack : public HostCompute {
 public:
  HeldBack(tutti::testing::Rank& self, int free_forks) : self_(self), free_forks_(free_forks) {}
  void fork_communication() override {
    if (self_.rank() == 0 || ++forks_ <= free_forks_) return;
    while (self_.board().numbers[0] < forks_ - free_forks_) std::this_thread::yield();
  }
  // Rank 0 computes for the n-th time.
  void computes() {
    if (self_.rank() == 0) ++self_.board().numbers[0];
  }

 private:
  tutti::testing::Rank& self_;
  int free_forks_, forks_ = 0;
};

// Counts every byte that is allocated.
class CountingCompute : public HostCompute {
 public:
  void* allocate(std::size_t bytes) override {
    void* const memory = HostCompute::allocate(bytes);
    sizes_[memory] = bytes;
    now_ += bytes;
    peak_ = std::max(peak_, now_);
    return memory;
  }
  void release(void* memory) noexcept override {
    now_ -= sizes_[memory];
    sizes_.erase(memory);
    HostCompute::release(memory);
  }
  std::size_t now() const { return now_; }
  std::size_t peak() const { return peak_; }

 private:
  std::map<void*, std::size_t> sizes_;
  std::size_t now_ = 0, peak_ = 0;
};

}  // namespace tutti::parallel
