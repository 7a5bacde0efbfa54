// The programs (algorithms/msccl/program.h) that TUTTI_PROGRAM gives a communicator: rank 0 reads, checks and proves
// them and ships their text, so that all ranks have the same or none. A program serves every call of its collective
// (with its root, if it has one), except calls whose blocks differ in length. It serves no other collective.
//
// Thread-safety: immutable after construction.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "algorithms/msccl/program.h"
#include "base/all_gather.h"
#include "base/settings/settings.h"
#include "selection/cost_model/candidates.h"
#include "src/plan/operation.h"
#include "transports/shm/descriptors/descriptor_exchange.h"

namespace tutti::plan {

struct ServingProgram {
  std::string path;
  // Proved. On rank 0 all ranks' schedules, which the selector prices; elsewhere only this rank's.
  msccl::Program program;

  const schedule::Schedule& own() const { return program.ranks.front(); }
};

class Programs {
 public:
  Programs() = default;  // none
  // Collective. `forced` is equal on all ranks. Throws tuttiInvalidArgument, on every rank, if a file is missing, too
  // long or wrong, two are for one collective, or one contradicts other settings. Skips and logs programs for other
  // numbers of ranks.
  Programs(const Settings& settings, const cost_model::Forced& forced, int rank, int nranks,
           const AllGather& all_gather);

  bool empty() const { return connections_ == 0; }
  // The most connections that any program has between two ranks; 0 without programs.
  int connections() const { return connections_; }
  // Null if there is none.
  const ServingProgram* Of(schedule::Collective collective) const {
    const auto c = static_cast<std::size_t>(collective);
    return c < by_collective_.size() ? by_collective_[c].get() : nullptr;
  }
  // The program that serves this call. The same on all ranks, however their calls differ.
  const ServingProgram* For(const Operation& operation) const;
  // Throws tuttiInvalidArgument if the call is in place and its program does not support that.
  void CheckPlace(const Operation& operation) const;
  // `tuning` restricted so that only programs serve, each for its collective.
  cost_model::TuningContext Among(cost_model::TuningContext tuning) const;

 private:
  void Serve(ServingProgram serving);

  std::array<std::unique_ptr<const ServingProgram>, schedule::kScheduledCollectives> by_collective_;
  int connections_ = 0;
};

}  // namespace tutti::plan
