// A model for the tests of sharding: units of unlike sizes whose gradients are known, trained by plain descent, and
// what it must come to, computed on one rank.
#pragma once

#include <fmt/format.h>

#include <map>
#include <utility>

#include "parallel/testing.h"
#include "tests/ranks.h"
#include "tutti/parallel/fully_sharded_data_parallel.h"
#include "tutti/parallel/host_compute.h"

namespace tutti::parallel {

// By unit, of its parameters. Over most numbers of ranks the first has empty shards.
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

// The gradient of each value is noise, another on each rank and micro-batch, and a tenth of the value.
class FullyShardedToy {
 public:
  FullyShardedToy(UnitSizes sizes, int rank, int ranks) : sizes_(std::move(sizes)), rank_(rank), ranks_(ranks) {
    for (std::size_t unit = 0; unit < sizes_.size(); ++unit) {
      for (std::size_t i = 0; i < sizes_[unit].size(); ++i) {
        values_.emplace_back(RandomFloats(sizes_[unit][i], static_cast<unsigned>(100 * unit + i)));
        firsts_.emplace(std::pair(unit, i), values_.size() - 1);
      }
    }
  }

  std::vector<ShardedUnit> units() const { return UnitsOf(sizes_); }
  const std::vector<float>& initial_values(std::size_t unit, std::size_t parameter) const {
    return values_[firsts_.at({unit, parameter})];
  }

  // The parameters are what they should be.
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

  static void Descend(const Tensor& data, const Tensor& grad) {
    for (std::size_t j = 0; j < data.count(); ++j) data.floats()[j] -= kRate * grad.floats()[j];
  }

  // The same step with every rank's gradients at hand.
  void ReferenceStep(int microbatches) {
    for (const auto& [where, index] : firsts_) {
      auto& values = values_[index];
      std::vector<double> grad(values.size());
      for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
        for (int rank = 0; rank < ranks_; ++rank) {
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
  std::vector<std::vector<float>> values_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> firsts_;  // of (unit, parameter) in values_
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

inline constexpr ZeroStage kStages[] = {ZeroStage::optimizer_state, ZeroStage::gradients, ZeroStage::parameters};

}  // namespace tutti::parallel
