// The parameters of units: each rank keeps what it must, and gathers all of a unit while the unit is used.
//
//   sharded --Start()--> gathering --EndGathers()--> whole --EndUse()--> sharded      (ZeroStage::parameters)
//
// In the other stages a unit stays whole until Update(), after which it is gathered once more, in place.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "parallel/sharded/unit_layout.h"

namespace tutti::parallel {

class ParameterGathering {
 public:
  using UnitState = FullyShardedDataParallel::UnitState;

  // Takes memory for what this rank keeps. Everything given outlives this.
  ParameterGathering(Compute& compute, MemoryAccount& memory, const std::vector<UnitLayout>& units);

  // Collective over the unit's ranks: `fill` writes each parameter's values, and all get those of rank 0.
  void Initialize(std::size_t unit, const std::function<void(std::size_t parameter, const Tensor& values)>& fill);
  // Collective over the unit's shard group: begins its all-gather on the communication stream, unless it is under way
  // or done. Throws Error (tuttiInvalidUsage) for a unit without values.
  void Start(std::size_t unit);
  // The all-gathers under way have ended. REQUIRES: they have, by join_communication().
  void EndGathers();
  // Frees what others keep, too.
  void EndUse(std::size_t unit);
  // The optimiser has changed the shards.
  void Update();

  UnitState state(std::size_t unit) const { return units_[unit].state; }
  // In the parameter's shape and type. Throws Error (tuttiInvalidUsage) unless the unit is whole.
  Tensor data(std::size_t unit, std::size_t parameter) const;
  // The parameters that this rank's optimiser changes: float32, [shard_count()].
  Tensor shard(std::size_t unit) const;

 private:
  struct Unit {
    const UnitLayout& layout;
    Buffer full{};    // all parameters; with ZeroStage::parameters only while they are used
    Buffer kept{};    // this rank's, with ZeroStage::parameters
    Buffer master{};  // this rank's in float32, if the parameters are not
    UnitState state = UnitState::sharded;
    bool initialized = false;
  };

  void MakeFull(Unit& unit);
  static Tensor KeptOf(const Unit& unit);

  Compute& compute_;
  MemoryAccount& memory_;
  std::vector<Unit> units_;
};

}  // namespace tutti::parallel
