// The gradients of units: from where a backward adds them to the average in this rank's shard.
//
//   Begin() --> a backward adds --> End() --> waiting --Advance()--> reducing --Advance()--> in the shard
//
// In "reducing" a reduce-scatter is under way in the unit's shard group. After the step's last one, an all-reduce across
// the replicas averages the shards, with hybrid sharding.
//
// Without sharded gradients, the micro-batches' are added up where they are computed, and reduced once a step. Else
// there is memory for all of a unit's gradients only until they are reduced, so each micro-batch's are reduced, and
// added up in the shard.
//
// Invariant: units are reduced in the order of their backwards, which is the same on all ranks.
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "parallel/sharded/gradient_places.h"
#include "parallel/sharded/unit_layout.h"

namespace tutti::parallel {

// The part of a backward that adds to gradients: all of it, or the second of two parts.
enum class BackwardPass { whole, weight };

class GradientReduction {
 public:
  // Takes memory for what this rank keeps, and zeroes it. The average is the sum divided by `divisor`, a number of
  // ranks. Everything given outlives this.
  GradientReduction(Compute& compute, MemoryAccount& memory, const std::vector<UnitLayout>& units, int divisor);

  // Throws Error (tuttiInvalidUsage) while gradients are reduced or wait for it.
  void Zero();
  // False: more micro-batches of this step follow.
  void set_sync(bool on) { sync_ = on; }

  // A backward's first part, which adds to no gradients, and owes a second one. Takes memory for the places where the
  // second one adds, so that grad() can name its own.
  void BeginInput(std::size_t unit);
  void EndInput(std::size_t unit);
  // A second part begins. Throws Error (tuttiInvalidUsage) if none is owed.
  void TakeOwed(std::size_t unit);

  // Whether other gradients are where this pass's would be: then Advance() first.
  bool IsTaken(std::size_t unit, BackwardPass pass) const;
  // Zeroes the gradients to which the pass adds, unless they add up. REQUIRES: !IsTaken(unit, pass).
  void Begin(std::size_t unit, BackwardPass pass);
  // Hands the unit's gradients over.
  void End(std::size_t unit);

  // Ends what is reducing, then begins the reduce-scatters of what waits: collective over the units' groups, on the
  // communication stream. REQUIRES: all that was under way there has ended, by join_communication().
  void Advance();
  bool idle() const { return waiting_.empty() && reducing_.empty(); }
  // Throws Error (tuttiInvalidUsage) if a part of the step is still to come.
  void RequireComplete() const;
  // Frees what only a step's backwards need. REQUIRES: idle().
  void EndStep() { places_.Free(); }

  // Where a backward adds, in the parameter's shape and type. Throws Error (tuttiInvalidUsage) where there is nothing.
  Tensor grad(std::size_t unit, std::size_t parameter) const;
  // The gradients that this rank's optimiser reads: float32, [shard_count()].
  Tensor shard(std::size_t unit) const { return ReducedOf(units_[unit]); }

 private:
  struct Unit {
    const UnitLayout& layout;
    std::size_t place = 0;  // in `places_`
    Buffer gradients{};     // all; from ZeroStage::gradients on until they are reduced
    Buffer arrived{};       // of one pass, if the shard has others' already or is of another type
    Buffer reduced{};       // this rank's gradients in float32, unless they are a part of `gradients`
    bool in_first_part = false;
    bool in_backward = false;  // a whole one, or its second part
    bool in_place = false;     // the last pass's gradients are in `places_`
    bool fresh = true;         // nothing has been reduced since Zero()
    bool last_pass = false;    // of the step
    int owed = 0;              // second parts to come
  };

  Buffer Make(std::size_t count, tuttiDataType_t dtype);
  static bool UsesPlace(const Unit& unit, BackwardPass pass);
  // All gradients of the last pass, [count()].
  Tensor GradientsOf(const Unit& unit) const;
  static Tensor ReducedOf(const Unit& unit);
  void Start(Unit& unit);
  void Finish(Unit& unit);

  Compute& compute_;
  MemoryAccount& memory_;
  int divisor_;
  std::vector<Unit> units_;
  std::vector<Unit*> waiting_, reducing_;  // in the order of their backwards
  GradientPlaces places_;
  bool sync_ = true;
};

}  // namespace tutti::parallel
