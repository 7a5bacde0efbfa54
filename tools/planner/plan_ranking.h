// The strategies that fit a cluster's memory, fastest first. All are priced; only strategies whose price does not
// exceed the best times found so far are simulated. A terminal shows how far it is.
//
// Thread-safety: an object is used by one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/report/progress.h"
#include "tools/planner/plan_cost.h"

namespace tutti::tools {

struct Evaluated {
  Strategy strategy;
  MemoryNeed memory;
  StepTime time;  // zeros if it does not fit
};

class PlanRanking {
 public:
  using Filter = std::function<bool(const Strategy&)>;

  // The cluster and the model must outlive it.
  PlanRanking(const Cluster& cluster, const LanguageModel& model, const std::vector<Strategy>& legal,
              TimeSource source);

  // At most `most`, by price or by simulation, according to the source. A simulated time may be shorter than its price
  // (docs/notebook/selection/choices.md says by how much), and a simulated ranking is only as reliable as that.
  std::vector<Evaluated> Fastest(std::size_t most, const Filter& filter);
  Evaluated Of(const Strategy& strategy);
  // The number of strategies that take less than `seconds`.
  std::size_t Faster(double seconds);

  std::size_t fitting() const { return by_price_.size(); }
  // Ordered by the memory that they need, the least first.
  const std::vector<Evaluated>& too_large() const { return too_large_; }

 private:
  StepTime TimeOf(const Evaluated& priced, report::Progress& progress);

  const LanguageModel& model_;
  const TimeSource source_;
  StepCosts prices_, simulations_;
  std::vector<Evaluated> by_price_, too_large_;
};

}  // namespace tutti::tools
