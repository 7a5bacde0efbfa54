// The programs (algorithms/msccl/program.h) that TUTTI_PROGRAM gives a communicator: rank 0 reads, checks and proves
// them and ships their text, so that all ranks have the same or none. A program serves every call of its collective, by
// its root if it has one, but those whose blocks differ in length; and no call of anything else.
//
// Thread-safety: immutable after construction.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "algorithms/msccl/program.h"
#include "base/settings.h"
#include "selection/cost_model/candidates.h"
#include "src/plan/operation.h"
#include "transports/shm/descriptor_exchange.h"

namespace tutti {

struct ServingProgram {
  std::string path;
  // Proved. On rank 0 everybody's schedules, which the selector prices; elsewhere this rank's only.
  Program program;

  const Schedule& own() const { return program.ranks.front(); }
};

class Programs {
 public:
  Programs() = default;  // none
  // Collective. `forced` is equal on all ranks. Throws tuttiInvalidArgument, on every rank, if a file is missing, too
  // long or wrong, two are for one collective, or one contradicts other settings. Programs for other numbers of ranks
  // are passed over, and the log says so.
  Programs(const Settings& settings, const Forced& forced, int rank, int nranks, const AllGather& all_gather);

  bool empty() const { return connections_ == 0; }
  // Most connections that any of them has from rank to rank; 0 without programs.
  int connections() const { return connections_; }
  // Null: none.
  const ServingProgram* Of(Collective collective) const {
    const auto c = static_cast<std::size_t>(collective);
    return c < by_collective_.size() ? by_collective_[c].get() : nullptr;
  }
  // The one that serves this call. The same on all ranks, whatever is different between them in the call.
  const ServingProgram* For(const Operation& operation) const;
  // Throws tuttiInvalidArgument if the call is in place and its program does not work so.
  void CheckPlace(const Operation& operation) const;
  // `conditions` under which only programs serve, each its collective.
  Conditions Among(Conditions conditions) const;

 private:
  void Serve(ServingProgram serving);

  std::array<std::unique_ptr<const ServingProgram>, kScheduledCollectives> by_collective_;
  int connections_ = 0;
};

}  // namespace tutti
